#include "server/assembly.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/random.h"
#include "base/units.h"
#include "server/admin_view.h"
#include "server/core/master.h"
#include "server/figures.h"
#include "server/index_host.h"
#include "server/net/master_host.h"
#include "server/net/server.h"
#include "server/node/advertise.h"
#include "server/node/node.h"
#include "server/node/payload.h"
#include "server/ports.h"
#include "server/signals.h"
#include "tiers/dram/backing.h"
#include "tiers/dram/dram_segment.h"
#include "transfer/shm/server.h"
#include "transfer/tcp/server.h"
#include "transfer/tcp/tcp_transport.h"

namespace tiercel::server {
namespace {

constexpr int64_t kEmbeddedJoinMs = 10'000;
constexpr uint32_t kDescriptorsBesideClients = 256;

// Descriptors for maxclients and our own; the soft limit is raised as far as it goes. Says so when it is not enough.
void RaiseDescriptorLimit(uint32_t max_clients) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = max_clients + kDescriptorsBesideClients;
  if (limit.rlim_cur >= wanted) return;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = std::min<rlim_t>(std::max(wanted, limit.rlim_cur), limit.rlim_max);
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = before;
  if (limit.rlim_cur < wanted) {
    Log(LogLevel::kWarning, "maxclients {} needs {} open files but the limit is {}; raise it with ulimit -n",
        max_clients, wanted, limit.rlim_cur);
  }
}

Status MakeDirectory(const std::string& dir) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) return Error(ErrorCode::kIo, fmt::format("dir '{}': {}", dir, error.message()));
  if (access(dir.c_str(), W_OK | X_OK) != 0) return SystemError(fmt::format("dir '{}'", dir), errno);
  return Ok();
}

tiers::HugePages ToTier(config::HugePages choice) {
  switch (choice) {
    case config::HugePages::kNo: return tiers::HugePages::kNo;
    case config::HugePages::kTry: return tiers::HugePages::kTry;
    case config::HugePages::kYes: return tiers::HugePages::kYes;
  }
  return tiers::HugePages::kNo;
}

// BOOTID/NAME: clients with the same boot id may use shared memory; replicas spread over distinct names.
std::string HostId(const config::Settings& settings) {
  std::string boot_id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot_id);
  return (boot_id.empty() ? "unknown" : boot_id) + "/" + settings.location_host;
}

bool CanBind(const std::string& host) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_NUMERICHOST | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), "0", &hints, &found) != 0) return true;  // a name: let the server say what is wrong
  const UniqueFd probe(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool can = probe && bind(probe.get(), found->ai_addr, found->ai_addrlen) == 0;
  freeaddrinfo(found);
  return can;
}

bool Offers(const config::Settings& settings, config::Transport wire) {
  return std::find(settings.transports.begin(), settings.transports.end(), wire) != settings.transports.end();
}

// Hosts to bind: those behind '-' only where this machine has them.
std::vector<std::string> UsableHosts(const std::vector<std::string>& binds) {
  std::vector<std::string> hosts;
  for (const std::string& bind : binds) {
    if (!bind.starts_with('-'))
      hosts.push_back(bind);
    else if (CanBind(bind.substr(1)))
      hosts.push_back(bind.substr(1));
  }
  return hosts;
}

net::Limits LimitsOf(const config::Settings& settings) {
  net::Limits limits;
  limits.max_clients = settings.max_clients;
  limits.idle_timeout_ms = settings.timeout_s * 1000;
  limits.reply_budget_bytes = settings.reply_budget_bytes;
  limits.idle_write_timeout_ms = settings.idle_write_timeout_ms;
  limits.idle_read_timeout_ms = settings.idle_read_timeout_ms;
  limits.proto_max_bulk_len = settings.proto_max_bulk_bytes;
  limits.query_buffer_limit = settings.query_buffer_bytes;
  limits.put_wait_ms = settings.put_wait_ms;
  return limits;
}

struct SocketPair {
  UniqueFd ours, theirs;
};
Result<SocketPair> MakeSocketPair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0)
    return SystemError("socketpair", errno);
  return SocketPair{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

Result<std::unique_ptr<transfer::Engine>> MakeEngine(transfer::Engine::TicketSource tickets) {
  transfer::EngineOptions options;
  options.admission_timeout_ms = 0;  // event loops submit: they must not wait
  std::vector<std::unique_ptr<transfer::Transport>> transports;
  transports.push_back(transfer::tcp::MakeTransport());
  return transfer::Engine::Create(options, std::move(transports), std::move(tickets));
}

}  // namespace

// In the order of construction; destroyed in the opposite one.
struct Assembly::Parts {
  explicit Parts(const config::Settings& initial) : settings(initial), live(initial) {}

  const config::Settings settings;
  config::LiveConfig live;
  std::unique_ptr<tiers::Backing> backing;  // outlives the node's segments
  std::unique_ptr<core::Master> master;
  std::unique_ptr<net::MasterHost> host;
  std::unique_ptr<IndexHost> index;
  std::unique_ptr<node::Node> node;
  std::unique_ptr<node::Payload> payload;
  std::unique_ptr<ConfigBridge> config_port;
  std::unique_ptr<ProcessBridge> process_port;
  std::unique_ptr<GenerationFile> generation_port;
  std::unique_ptr<Figures> figures;
  std::unique_ptr<net::Server> front;
  std::atomic<bool> stopping{false};
  std::unique_ptr<admin::AdminServer> admin;
  bool stopped = false;

  Status Build();
  Status BuildMaster();
  Status BuildNode();
  Result<node::MasterEndpoint> MasterOfNode();
  Status BuildDataServers();
  void BuildPayload();
  Status BuildFrontEnd();
  Status BuildAdmin();
  int ConnectInside(const char* suffix);
  Status OnChange(const config::Settings& before, const config::Settings& after);
  bool embedded() const { return settings.store_role && settings.master_role; }
};

Status Assembly::Parts::Build() {
  TIERCEL_TRY(MakeDirectory(settings.dir));
  RaiseDescriptorLimit(settings.max_clients);
  if (settings.master_role) TIERCEL_TRY(BuildMaster());
  if (settings.store_role) TIERCEL_TRY(BuildNode());
  BuildPayload();
  TIERCEL_TRY(BuildFrontEnd());
  TIERCEL_TRY(BuildAdmin());
  live.AddListener([this](const auto& before, const auto& after) { return OnChange(before, after); });
  front->SetLoading(index != nullptr);
  front->Start();
  if (index != nullptr) TIERCEL_TRY(index->Load(StopRequested));
  front->SetLoading(false);
  return node != nullptr ? node->Start() : Ok();
}

Status Assembly::Parts::BuildMaster() {
  TIERCEL_ASSIGN(index, IndexHost::Open(settings));
  core::Options options = settings.core;
  options.journal = index->keeps_records();
  core::Master::Seeds seeds;
  seeds.generation = index->generation();
  seeds.random = RandomId();
  FillRandom(seeds.grant_master_key);
  master = std::make_unique<core::Master>(options, seeds);
  host = std::make_unique<net::MasterHost>(master.get(), &SystemClock::Get());
  index->Attach(master.get(), host.get());
  return Ok();
}

Status Assembly::Parts::BuildNode() {
  std::vector<std::unique_ptr<tiers::Segment>> segments;
  if (settings.dram_backing != "no") {
    TIERCEL_ASSIGN(backing, tiers::Backing::Open(settings.dram_backing, settings.store_name));
  }
  for (size_t i = 0; i < settings.dram_bytes.size(); ++i) {
    tiers::DramOptions options;
    options.name = fmt::format("{}-dram-{}", settings.store_name, i);
    options.id = static_cast<uint32_t>(i);
    options.size = settings.dram_bytes[i];
    options.huge_pages = ToTier(settings.dram_huge_pages);
    // Memory that is new has an epoch that no record can name. Half of the range is left for those that orders add.
    options.epoch = 1 + static_cast<uint32_t>(RandomId() >> 33);
    TIERCEL_ASSIGN(auto segment,
                   backing != nullptr ? backing->OpenSegment(options) : tiers::CreateDramSegment(options));
    segments.push_back(std::move(segment));
  }
  if (backing != nullptr) TIERCEL_TRY(backing->Prune());
  node::NodeOptions options;
  options.store_name = settings.store_name;
  options.host = HostId(settings);
  if (backing != nullptr) options.storage_id = backing->storage_id();
  options.view_max_bytes = settings.view_max_bytes;
  options.store_timeout_ms = settings.core.store_timeout_ms;
  if (!settings.data_advertise_host.empty()) {
    // Without a port the node takes the one that its data port has got, which `data-port 0` leaves to the system.
    options.data_advertise = settings.data_advertise_host;
    if (settings.data_advertise_port != 0) {
      options.data_advertise = node::FormatHostPort({settings.data_advertise_host, settings.data_advertise_port});
    }
  }
  TIERCEL_ASSIGN(node::MasterEndpoint endpoint, MasterOfNode());
  options.masters.push_back(std::move(endpoint));
  TIERCEL_ASSIGN(node, node::Node::Create(std::move(options), std::move(segments)));
  return BuildDataServers();
}

Result<node::MasterEndpoint> Assembly::Parts::MasterOfNode() {
  node::MasterEndpoint endpoint;
  if (embedded()) {
    endpoint.work.adopt = [this] { return ConnectInside("-work"); };
    endpoint.report.adopt = [this] { return ConnectInside("-report"); };
    return endpoint;
  }
  endpoint.work.host = settings.master_host;
  endpoint.work.port = settings.master_port;
  endpoint.work.user = settings.master_user;
  endpoint.work.password = settings.master_auth;
  endpoint.work.client_name = settings.store_name;
  endpoint.report = endpoint.work;
  return endpoint;
}

Status Assembly::Parts::BuildDataServers() {
  if (Offers(settings, config::Transport::kTcp)) {
    transfer::tcp::ServerOptions options;
    options.bind = UsableHosts(settings.data_binds);
    options.port = settings.data_port;
    options.threads = settings.data_threads;
    TIERCEL_ASSIGN(auto server, transfer::tcp::MakeServer(options, node->target()));
    node->AddDataServer(std::move(server));
  }
  if (Offers(settings, config::Transport::kShm) && !settings.data_socket.empty()) {
    transfer::shm::ServerOptions options;
    options.path = std::filesystem::absolute(settings.Path(settings.data_socket)).string();
    options.threads = settings.data_threads;
    TIERCEL_ASSIGN(auto server, transfer::shm::MakeServer(options, node->target()));
    node->SetSocketServer(std::move(server), options.path);
  }
  return Ok();
}

void Assembly::Parts::BuildPayload() {
  if (!settings.master_role) return;
  node::PayloadOptions options;
  options.local = node != nullptr ? node->target() : nullptr;
  options.host = HostId(settings);
  options.make_engine = MakeEngine;
  options.tickets = [this]() -> Result<Ticket> {
    return host->With(
        [](core::Master& core, Times now) { return core.MakeTicket(UserId(net::kServerUser), RandomId(), now); });
  };
  payload = std::make_unique<node::Payload>(std::move(options));
}

Status Assembly::Parts::BuildFrontEnd() {
  config_port = std::make_unique<ConfigBridge>(&live);
  process_port = std::make_unique<ProcessBridge>(index.get());
  generation_port = std::make_unique<GenerationFile>(settings.Path("generation"));
  figures = std::make_unique<Figures>(
      Figures::Sources{.host = host.get(), .index = index.get(), .node = node.get(), .payload = payload.get()});
  std::vector<net::UserSpec> specs;
  for (const auto& words : settings.users) {
    TIERCEL_ASSIGN(auto spec, net::ParseUserDirective(words));
    specs.push_back(std::move(spec));
  }
  TIERCEL_ASSIGN(auto users, net::Users::Create(settings.requirepass, specs));
  net::ServerOptions options;
  options.binds = settings.binds;
  options.port = settings.port;
  if (!settings.unix_socket.empty()) options.unix_socket = settings.Path(settings.unix_socket);
  options.unix_permissions = settings.unix_socket_permissions;
  options.io_threads = settings.io_threads;
  options.backlog = static_cast<int>(settings.tcp_backlog);
  options.tcp_keepalive_s = static_cast<int>(settings.tcp_keepalive_s);
  options.protected_mode = settings.protected_mode;
  options.databases = settings.core.name_spaces;
  options.version = TIERCEL_VERSION;
  options.config_file = settings.file;
  options.limits = LimitsOf(settings);
  net::Ports ports{.payload = payload.get(),
                   .config = config_port.get(),
                   .process = process_port.get(),
                   .info = figures.get(),
                   .generation = generation_port.get()};
  TIERCEL_ASSIGN(front, net::Server::Create(options, ports, std::move(users), host.get()));
  figures->SetFront(front.get());
  return Ok();
}

Status Assembly::Parts::BuildAdmin() {
  admin::AdminOptions options;
  options.binds = settings.admin_binds;
  options.port = settings.admin_port;
  TIERCEL_ASSIGN(admin, admin::StartAdmin(options, AdminView(figures.get(), host.get(), &stopping)));
  return Ok();
}

// A connection of the store in this process to the front end, as often as it needs one. Its threads.
int Assembly::Parts::ConnectInside(const char* suffix) {
  Result<SocketPair> pair = MakeSocketPair();
  if (!pair.ok()) return -1;
  front->AdoptConnection(std::move(pair->theirs), {.name = settings.store_name + suffix});
  return pair->ours.Release();
}

Status Assembly::Parts::OnChange(const config::Settings& before, const config::Settings& after) {
  if (host != nullptr) {
    core::Options options = after.core;
    options.journal = index->keeps_records();
    host->With([&](core::Master& core, Times now) { core.SetOptions(options, now); });
  }
  front->SetLimits(LimitsOf(after));
  if (before.requirepass != after.requirepass) front->users().SetRequirePass(after.requirepass);
  if (before.log_level != after.log_level) SetLogLevel(after.log_level);
  return Ok();
}

Assembly::Assembly() = default;

Assembly::~Assembly() {
  if (parts_ != nullptr) Stop(0);
}

Result<std::unique_ptr<Assembly>> Assembly::Build(const config::Settings& settings) {
  std::unique_ptr<Assembly> assembly(new Assembly);
  assembly->parts_ = std::make_unique<Parts>(settings);
  TIERCEL_TRY(assembly->parts_->Build());
  return assembly;
}

bool Assembly::WaitReady(int64_t timeout_ms) {
  return parts_->node == nullptr || parts_->node->WaitServing(timeout_ms);
}

void Assembly::Stop(int64_t grace_ms) {
  if (std::exchange(parts_->stopped, true)) return;
  parts_->stopping = true;
  // The front end first: nobody begins a put while its store is leaving. The store's own conversation goes on.
  if (parts_->front != nullptr) parts_->front->Drain(grace_ms);
  if (parts_->node != nullptr) parts_->node->Stop(grace_ms);
  if (parts_->front != nullptr) parts_->front->Stop();
}

std::string Assembly::Banner() const {
  const config::Settings& s = parts_->settings;
  std::string ready = fmt::format("ready resp={}", fmt::join(parts_->front->addresses(), ","));
  std::string text = fmt::format("Tiercel {} ({}), RESP on {}\n", TIERCEL_VERSION,
                                 s.master_role && s.store_role ? "master and store"
                                 : s.master_role               ? "master"
                                                               : "store",
                                 fmt::join(parts_->front->addresses(), " "));
  if (!s.unix_socket.empty()) ready += " unix=" + s.Path(s.unix_socket);
  if (parts_->node != nullptr) {
    const node::NodeFigures figures = parts_->node->Figures();
    const auto addresses = parts_->node->data_addresses();
    text += fmt::format("store '{}': {} of DRAM in {} segment{}, data on {}\n", figures.store_name,
                        HumanBytes(figures.segment_bytes), figures.segments, figures.segments == 1 ? "" : "s",
                        fmt::join(addresses, " "));
    if (!addresses.empty()) ready += fmt::format(" data={}", addresses.front());
    if (!s.data_socket.empty() && Offers(s, config::Transport::kShm)) ready += " data-socket=" + s.Path(s.data_socket);
  }
  if (parts_->admin != nullptr) ready += fmt::format(" admin={}", fmt::join(parts_->admin->addresses(), ","));
  return text + ready + "\n";
}

}  // namespace tiercel::server
