// Puts a client together. The only file of the library that names transports.
#include "client/address.h"
#include "client/client_impl.h"
#include "client/host.h"
#include "protocol/resp/conn/connection.h"
#include "transfer/shm/shm_transport.h"
#include "transfer/tcp/tcp_transport.h"
#include "transfer/transport.h"

namespace tiercel {
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

std::unique_ptr<Client> Client::Create(const ClientOptions& options) {
  const std::string host_id = client::HostId(options.location);
  auto address = client::ParseMasterAddress(options.master);
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
  connection.greeting = client::Greeting(options.name_space, host_id);
  client::Ingredients ingredients;
  ingredients.connection = resp::Connection::Create(std::move(connection));
  ingredients.host_id = host_id;
  // A bad address shows at the first attempt to connect.
  ingredients.make_engine =
      [options, address](transfer::Engine::TicketSource tickets) -> Result<std::shared_ptr<transfer::Engine>> {
    if (!address.ok()) return address.error();
    return MakeEngine(options, std::move(tickets));
  };
  return std::make_unique<client::ClientImpl>(options, std::move(ingredients));
}

Result<std::unique_ptr<Client>> Client::Connect(const ClientOptions& options) {
  std::unique_ptr<Client> client = Create(options);
  TIERCEL_TRY(client->Reconnect());
  return client;
}

}  // namespace tiercel
