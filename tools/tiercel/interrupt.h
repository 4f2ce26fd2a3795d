// Ctrl-C: closes the client, so that whatever is under way ends with an error and cleans up behind itself.
#pragma once

#include <memory>

#include "tiercel/client.h"

namespace tiercel::cli {

// Call first in main, before there are threads: SIGINT and SIGTERM go to a thread of their own from then on. A second
// one ends the process at once.
void WatchSignals();
void CloseWhenInterrupted(std::weak_ptr<Client> client);
bool Interrupted();

}  // namespace tiercel::cli
