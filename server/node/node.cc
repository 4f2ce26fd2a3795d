#include "server/node/node.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/random.h"
#include "base/units.h"
#include "server/node/advertise.h"

namespace tiercel::node {

namespace {

constexpr int64_t kLeaveMs = 2'000;        // for the words of leaving
constexpr int64_t kFindAddressMs = 1'000;  // for one connection to the master

// Names stand between spaces in replies, and before the last dot of STORE.INCARNATION.
Status CheckName(const std::string& name) {
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 0x7F; });
  if (name.empty() || name.size() > 255 || !plain) {
    return Error(ErrorCode::kInvalid,
                 fmt::format("store name '{}': 1 to 255 printable characters without spaces", name));
  }
  return Ok();
}

StoreTargetOptions TargetOptions(const NodeOptions& options) {
  return {.incarnation = options.incarnation,
          .view_max_bytes = options.view_max_bytes,
          .store_timeout_ms = options.store_timeout_ms,
          .clock = options.clock,
          .puts = {},
          .ranges = {}};
}

}  // namespace

Result<std::unique_ptr<Node>> Node::Create(NodeOptions options, std::vector<std::unique_ptr<tiers::Segment>> segments) {
  TIERCEL_TRY(CheckName(options.store_name));
  if (options.masters.empty()) return Error(ErrorCode::kInvalid, "a store needs a master");
  if (!options.data_advertise.empty()) {
    TIERCEL_ASSIGN(const HostPort given, ParseHostPort(options.data_advertise));
    if (IsWildcard(given.host)) {
      return Error(ErrorCode::kInvalid,
                   fmt::format("data-advertise {}: a wildcard cannot be announced", options.data_advertise));
    }
  }
  if (!options.incarnation) options.incarnation = Incarnation{RandomId()};
  if (options.storage_id.empty()) options.storage_id = FormatHex64(RandomId());
  auto target = std::make_unique<StoreTarget>(TargetOptions(options));
  for (auto& segment : segments) TIERCEL_TRY(target->AddSegment(std::move(segment)));
  return std::unique_ptr<Node>(new Node(std::move(options), std::move(target)));
}

Node::Node(NodeOptions options, std::unique_ptr<StoreTarget> target)
    : options_(std::move(options)),
      clock_(options_.clock != nullptr ? *options_.clock : SystemClock::Get()),
      target_(std::move(target)) {}

Node::~Node() { Stop(0); }

void Node::AddDataServer(std::unique_ptr<transfer::Server> server) {
  TIERCEL_CHECK(control_ == nullptr);
  servers_.push_back(std::move(server));
}

void Node::SetSocketServer(std::unique_ptr<transfer::Server> server, std::string path) {
  TIERCEL_CHECK(control_ == nullptr);
  socket_server_ = std::move(server);
  socket_path_ = std::move(path);
}

Status Node::Start() {
  TIERCEL_CHECK(control_ == nullptr);
  // What can be known to be wrong is said now, not in the log of a store that never joins.
  TIERCEL_TRY(ChooseAdvertised(
      {.given = options_.data_advertise, .bound = data_addresses(), .local = {}, .interfaces = InterfaceAddresses()}));
  ControlOptions control;
  control.masters = options_.masters;
  control.identity = {.name = options_.store_name,
                      .incarnation = target_->incarnation(),
                      .storage_id = options_.storage_id,
                      .host = options_.host,
                      .data_address = {},
                      .data_socket = socket_path_,
                      .generation_seen = 0,
                      .proto_min = options_.proto_min,
                      .proto_max = options_.proto_max};
  control.data_address = [this](const MasterEndpoint& master) { return AddressFor(master); };
  control.seed = RandomId();
  control.clock = options_.clock;
  control_ = std::make_unique<Control>(std::move(control), target_.get());
  control_->Start();
  return Ok();
}

Result<std::string> Node::AddressFor(const MasterEndpoint& master) const {
  AdvertiseInputs inputs{.given = options_.data_advertise, .bound = data_addresses(), .local = {}, .interfaces = {}};
  if (inputs.given.empty()) {
    const bool over_ip = master.work.adopted_fd < 0 && !master.work.adopt && master.work.unix_socket.empty();
    if (over_ip) inputs.local = LocalAddressTowards(master.work.host, master.work.port, kFindAddressMs);
    inputs.interfaces = InterfaceAddresses();
  }
  return ChooseAdvertised(inputs);
}

void Node::Stop(int64_t grace_ms) {
  if (std::exchange(stopped_, true)) return;
  target_->RefuseNewPuts();
  if (control_ != nullptr && grace_ms > 0) {
    const auto offers = target_->Offers();
    const bool kept = std::all_of(offers.begin(), offers.end(), [](const auto& offer) { return offer.kept; });
    // The master places nothing here from now on, so that what is open is all that there is to wait for.
    control_->Leave({.grace_ms = kept ? 0 : grace_ms + kLeaveMs, .kept = kept}, kLeaveMs);
    if (!control_->WaitPutsEnded(grace_ms)) {
      Log(LogLevel::kNotice, "store {}: {} puts are cut off", options_.store_name, target_->open_puts());
    }
    // What is kept is not given up: the end of the connections says the rest.
    if (!kept) control_->Leave({}, kLeaveMs);
  }
  for (auto& server : servers_) server->Stop();
  if (socket_server_ != nullptr) socket_server_->Stop();
  if (control_ != nullptr) control_->Stop();
}

std::vector<std::string> Node::data_addresses() const {
  std::vector<std::string> bound;
  for (const auto& server : servers_) bound.push_back(server->address());
  return bound;
}

NodeFigures Node::Figures() const {
  NodeFigures figures;
  figures.store_name = options_.store_name;
  figures.incarnation = target_->incarnation();
  if (control_ != nullptr) figures.control = control_->Figures();
  figures.target = target_->Figures();
  const int64_t heard_ms = target_->last_heard_ms();
  if (heard_ms >= 0) figures.heard_ms_ago = clock_.Now().boot_ms - heard_ms;
  for (const auto& offer : target_->Offers()) {
    ++figures.segments;
    figures.segment_bytes += offer.size;
  }
  return figures;
}

}  // namespace tiercel::node
