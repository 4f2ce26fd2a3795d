# Every outside library, found once. All are Debian 12 packages.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(OpenSSL 3 REQUIRED)
find_package(prometheus-cpp REQUIRED CONFIG)
find_package(CLI11 REQUIRED CONFIG)
find_package(nlohmann_json REQUIRED CONFIG)

# Asio, standalone: headers only, without its deprecated parts.
add_library(tiercel_asio INTERFACE)
target_compile_definitions(tiercel_asio INTERFACE ASIO_STANDALONE ASIO_NO_DEPRECATED
  # Asio looks for it before it has included what would define it: files that differ in the order of their includes would
  # free with one function what they have taken with the other.
  ASIO_HAS_STD_ALIGNED_ALLOC=1)
target_link_libraries(tiercel_asio INTERFACE Threads::Threads)

# xxHash as a header: the instruction set is ours to choose at run time.
find_path(XXHASH_INCLUDE_DIR xxhash.h PATHS /usr/include NO_DEFAULT_PATH REQUIRED)

# RocksDB. Its CMake package wants find modules of everything that it is built with; the shared library alone does not.
find_path(ROCKSDB_INCLUDE_DIR rocksdb/db.h REQUIRED)
find_library(ROCKSDB_LIBRARY NAMES librocksdb.so rocksdb REQUIRED)
add_library(tiercel_rocksdb INTERFACE)
target_include_directories(tiercel_rocksdb SYSTEM INTERFACE ${ROCKSDB_INCLUDE_DIR})
target_link_libraries(tiercel_rocksdb INTERFACE ${ROCKSDB_LIBRARY} Threads::Threads)

if(TIERCEL_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
  pkg_check_modules(HIREDIS REQUIRED IMPORTED_TARGET hiredis)
endif()
if(TIERCEL_BENCH)
  find_package(benchmark REQUIRED)
endif()
