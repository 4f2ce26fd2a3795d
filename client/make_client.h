// What a client is made of, from its options. Tests take it apart and put in their own.
#pragma once

#include "client/client_impl.h"

namespace tiercel::client {

// Nothing is connected yet. A master's address that makes no sense shows at the first attempt to connect.
Ingredients MakeIngredients(const ClientOptions& options);

}  // namespace tiercel::client
