#include "server/net/value_sender.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "server/net/placement.h"
#include "server/net/remote_transfer.h"
#include "server/net/server_shared.h"
#include "server/net/worker.h"

namespace tiercel::net {
namespace {

constexpr char kLineEnd[] = "\r\n";

std::span<const std::byte> LineEnd() { return {reinterpret_cast<const std::byte*>(kLineEnd), 2}; }

}  // namespace

ValueSender::ValueSender(Worker* worker, core::ConnectionId session, core::Master& master, const core::KeyRef& key,
                         const core::ObjectInfo& info, ReadPin pin, uint64_t from, uint64_t length, Times now)
    : worker_(worker),
      session_(session),
      name_space_(key.name_space),
      key_(key.key),
      seed_(key.hash),
      version_(info.version),
      size_(info.size),
      sum_(info.sum),
      from_(from),
      length_(length),
      pin_(std::move(pin)),
      next_(from) {
  TIERCEL_CHECK(length > 0 && from <= info.size && length <= info.size - from);
  const core::PayloadPort* port = worker->shared().ports.payload;
  for (const core::ReplicaInfo& replica : info.replicas) {
    Source source;
    source.replica = replica;
    const core::StoreInfo& store = master.store(replica.store);
    source.local = port->FindLocal(store.incarnation, replica.place);
    source.remote.store = store;
    if (source.local == nullptr)
      source.remote.grant = master.MakeGrant(replica, version_, Right::kRead, ServerUserId(), now);
    sources_.push_back(std::move(source));
  }
  std::stable_sort(sources_.begin(), sources_.end(), [](const Source& a, const Source& b) {
    return std::pair(a.replica.suspect, a.local == nullptr) < std::pair(b.replica.suspect, b.local == nullptr);
  });
}

ValueSender::~ValueSender() = default;

uint64_t ValueSender::BlockLength(uint64_t block) const { return std::min(kBlockBytes, size_ - block * kBlockBytes); }

ValueSender::State ValueSender::Advance() {
  if (piece_ < pieces_.size()) return State::kReady;
  pieces_.clear();
  piece_ = 0;
  if (ended_) return State::kDone;
  while (source_ < sources_.size()) {
    Source& source = sources_[source_];
    const size_t before = source_;
    const State state = source.local != nullptr ? AdvanceLocal(source) : AdvanceRemote(source);
    if (source_ == before) return state;
  }
  if (!error_) error_ = Error(ErrorCode::kNoReplica, "no replica of the value can be read");
  return State::kFailed;
}

ValueSender::State ValueSender::AdvanceLocal(const Source& source) {
  const LocalValue value(source.local, &source.replica.extents);
  if (size_ > kBlockBytes && sums_.empty()) {
    std::vector<std::byte> trailer(TrailerBytes(size_));
    value.CopyOut(size_, trailer.data(), trailer.size());
    if (!TrailerIsRight(trailer.data())) {
      Bad(ErrorCode::kChecksum);
      return State::kFailed;
    }
  }
  const uint64_t block = next_ / kBlockBytes;
  if (!BlockIsRight(block, value.Hash(block * kBlockBytes, BlockLength(block), &hasher_))) {
    Bad(ErrorCode::kChecksum);
    return State::kFailed;
  }
  const uint64_t end = std::min(from_ + length_, (block + 1) * kBlockBytes);
  value.ForEach(next_, end - next_, [&](std::span<std::byte> piece) { HandOut(piece); });
  next_ = end;
  if (next_ == from_ + length_) HandOut(LineEnd()), ended_ = true;
  return State::kReady;
}

// Reads one chunk ahead of what is being sent. A trailer is read beside the first chunk.
ValueSender::State ValueSender::AdvanceRemote(Source& source) {
  const bool waits_for_trailer = size_ > kBlockBytes && sums_.empty() && !StartTrailer(source);
  if (!ahead_.transfer || ahead_.first_block != next_ / kBlockBytes) {
    ahead_ = StartChunk(source, next_ / kBlockBytes);
  }
  if (waits_for_trailer || !ahead_.transfer->ended()) return State::kWaiting;

  const Status& read = *ahead_.transfer->ended();
  const Status& trailer = trailer_ ? *trailer_->ended() : read;
  if (!read.ok() || !trailer.ok()) {
    const ErrorCode code = (read.ok() ? trailer : read).error().code();
    if (code == ErrorCode::kGrantExpired && !source.regranted) {
      Regrant(source);
      return AdvanceRemote(source);
    }
    Bad(code);
    return State::kFailed;
  }
  if (trailer_ && !TrailerIsRight(trailer_->memory().data())) {
    Bad(ErrorCode::kChecksum);
    return State::kFailed;
  }
  trailer_.reset();
  const std::byte* const bytes = ahead_.transfer->memory().data();
  const uint64_t base = ahead_.first_block * kBlockBytes;
  for (uint64_t block = ahead_.first_block; block < ahead_.first_block + ahead_.blocks; ++block) {
    const uint64_t sum = HashBytes({bytes + block * kBlockBytes - base, BlockLength(block)});
    if (!BlockIsRight(block, sum)) {
      Bad(ErrorCode::kChecksum);
      return State::kFailed;
    }
  }
  source.regranted = false;
  current_ = std::move(ahead_);
  ahead_ = {};
  const uint64_t end = std::min(from_ + length_, base + current_.blocks * kBlockBytes);
  HandOut({bytes + (next_ - base), end - next_});
  next_ = end;
  if (next_ == from_ + length_) {
    HandOut(LineEnd());
    ended_ = true;
  } else {
    ahead_ = StartChunk(source, next_ / kBlockBytes);
  }
  return State::kReady;
}

bool ValueSender::TrailerIsRight(const std::byte* trailer) {
  std::vector<uint64_t> sums(BlockCount(size_));
  std::memcpy(sums.data(), trailer, sums.size() * 8);
  if (ObjectSum(seed_, size_, sums) != sum_) return false;
  sums_ = std::move(sums);
  return true;
}

bool ValueSender::BlockIsRight(uint64_t block, uint64_t sum) const {
  if (size_ > kBlockBytes) return sums_[block] == sum;
  return ObjectSum(seed_, size_, {&sum, 1}) == sum_;
}

void ValueSender::HandOut(std::span<const std::byte> piece) {
  if (!piece.empty()) pieces_.push_back(piece);
}

// The replica is not asked again by this reader; the core hears of it and orders what is to be done.
void ValueSender::Bad(ErrorCode why) {
  const Source& source = sources_[source_++];
  ahead_ = {};
  trailer_.reset();
  const bool damaged = why == ErrorCode::kChecksum || why == ErrorCode::kLength;
  error_ = damaged ? Error(ErrorCode::kChecksum, fmt::format("the value's bytes at store {} do not match its checksum",
                                                             source.remote.store.name))
                   : Error(ErrorCode::kNoReplica,
                           fmt::format("store {} could not be read: {}", source.remote.store.name, InfoOf(why).name));
  MasterHost::Hold hold(worker_->shared().host);
  const Status reported =
      hold.master().Report(key_ref(), version_, source.remote.store.incarnation, source.replica.place,
                           damaged ? ErrorCode::kChecksum : ErrorCode::kUnreachable, worker_->Now());
  static_cast<void>(reported.ok());  // the version may have gone meanwhile: then there is nothing to report
}

void ValueSender::Regrant(Source& source) {
  MasterHost::Hold hold(worker_->shared().host);
  source.remote.grant = hold.master().MakeGrant(source.replica, version_, Right::kRead, ServerUserId(), worker_->Now());
  source.regranted = true;
  ahead_ = {};
  trailer_.reset();
}

// True once it is there.
bool ValueSender::StartTrailer(const Source& source) {
  if (!trailer_) {
    trailer_ = std::make_shared<RemoteTransfer>(TrailerBytes(size_));
    RemoteTransfer::Read(trailer_, worker_, session_, worker_->shared().ports.payload, source.remote, size_,
                         TrailerBytes(size_));
  }
  return trailer_->ended().has_value();
}

ValueSender::Chunk ValueSender::StartChunk(const Source& source, uint64_t block) {
  Chunk chunk;
  const uint64_t end_block = BlockCount(from_ + length_);
  chunk.first_block = block;
  chunk.blocks = std::min(kChunkBlocks, end_block - block);
  const uint64_t offset = block * kBlockBytes;
  const uint64_t bytes = std::min(size_, (block + chunk.blocks) * kBlockBytes) - offset;
  chunk.transfer = std::make_shared<RemoteTransfer>(bytes);
  RemoteTransfer::Read(chunk.transfer, worker_, session_, worker_->shared().ports.payload, source.remote, offset,
                       bytes);
  return chunk;
}

size_t ValueSender::Pieces(std::vector<iovec>* out, size_t max_pieces) const {
  size_t bytes = 0;
  for (size_t i = piece_; i < pieces_.size() && out->size() < max_pieces; ++i) {
    out->push_back({const_cast<std::byte*>(pieces_[i].data()), pieces_[i].size()});
    bytes += pieces_[i].size();
  }
  return bytes;
}

void ValueSender::Sent(size_t bytes) {
  started_ = started_ || bytes > 0;
  while (bytes > 0) {
    std::span<const std::byte>& piece = pieces_[piece_];
    const size_t n = std::min(bytes, piece.size());
    piece = piece.subspan(n);
    bytes -= n;
    if (piece.empty()) ++piece_;
  }
}

}  // namespace tiercel::net
