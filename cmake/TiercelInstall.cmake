# Filled in by the packaging: install rules, find_package(tiercel), pkg-config.
