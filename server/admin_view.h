// What the admin port shows of this process: readiness, the figures as metrics, and tables for people.
#pragma once

#include <atomic>

#include "server/admin/admin.h"
#include "server/figures.h"

namespace tiercel::server {

// `figures`, `host` (nullptr without the master's role) and `stopping` outlive the handlers.
admin::AdminHandlers AdminView(const Figures* figures, net::MasterHost* host, const std::atomic<bool>* stopping);

}  // namespace tiercel::server
