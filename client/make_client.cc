// Puts a client together. The only file of the library that names transports.
#include "client/make_client.h"

#include "client/address.h"
#include "client/host.h"
#include "protocol/resp/conn/connection.h"
#include "transfer/shm/shm_transport.h"
#include "transfer/tcp/tcp_transport.h"
#include "transfer/transport.h"

namespace tiercel {
namespace client {
namespace {

Result<std::shared_ptr<transfer::Engine>> MakeEngine(const ClientOptions& options,
                                                     transfer::Engine::TicketSource tickets) {
  transfer::EngineOptions engine;
  engine.connections_per_peer = options.connections_per_store;
  engine.connect_timeout_ms = options.connect_timeout_ms;
  std::vector<std::unique_ptr<transfer::Transport>> transports;
  transports.push_back(transfer::shm::MakeTransport());
  transports.push_back(transfer::tcp::MakeTransport());
  TIERCEL_ASSIGN(auto made, transfer::Engine::Create(engine, std::move(transports), std::move(tickets)));
  return std::shared_ptr<transfer::Engine>(std::move(made));
}

}  // namespace

Ingredients MakeIngredients(const ClientOptions& options) {
  const std::string host_id = HostId(options.location);
  auto address = ParseMasterAddress(options.master);
  resp::ConnectionOptions connection;
  if (address.ok()) {
    connection.host = address->host;
    connection.port = address->port;
    connection.unix_socket = address->unix_socket;
  }
  connection.user = options.user;
  connection.password = options.password;
  connection.client_name = options.name;
  connection.connect_timeout_ms = options.connect_timeout_ms;
  connection.greeting = Greeting(options.name_space, host_id);
  Ingredients ingredients;
  ingredients.connection = resp::Connection::Create(std::move(connection));
  ingredients.host_id = host_id;
  ingredients.make_engine =
      [options, address](transfer::Engine::TicketSource tickets) -> Result<std::shared_ptr<transfer::Engine>> {
    if (!address.ok()) return address.error();
    return MakeEngine(options, std::move(tickets));
  };
  return ingredients;
}

}  // namespace client

std::unique_ptr<Client> Client::Create(const ClientOptions& options) {
  return std::make_unique<client::ClientImpl>(options, client::MakeIngredients(options));
}

Result<std::unique_ptr<Client>> Client::Connect(const ClientOptions& options) {
  std::unique_ptr<Client> made = Create(options);
  TIERCEL_TRY(made->Reconnect());
  return made;
}

}  // namespace tiercel
