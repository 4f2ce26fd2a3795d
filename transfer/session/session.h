// Session: the store's end of one data connection, over TCP or a UNIX socket.
//
// It belongs to one loop: every member runs there, but for the revocation of an Access, which comes from any thread
// and is posted. Bytes of a WRITE go from the socket into Access::memory; bytes of a READ go out by sendfile
// (TCP) or straight from memory (UNIX sockets). An Access lives until nothing of its use is left: after a sendfile
// that is when the socket's queue has drained past it, because the queue refers to the segment's own pages.
//
// Bounds: kMaxReplies answers wait to be sent and kMaxDraining uses wait for the socket's queue, then no further
// request is read; `max_held` pins and `max_maps` mappings of a peer's memory. A frame is at most kMaxFrameBytes.
// Payload takes no buffer at all.
//
// Files: session.cc (life), session_receive.cc (bytes to frames), session_requests.cc (what frames ask for),
// session_send.cc (answers).
#pragma once

#include <asio/posix/stream_descriptor.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/fd.h"
#include "transfer/frame_input.h"
#include "transfer/frames.h"
#include "transfer/session/limits.h"
#include "transfer/target.h"

namespace tiercel::transfer {

class SessionLoop;

class Session : public std::enable_shared_from_this<Session> {
 public:
  // `local`: a UNIX socket, which may pass descriptors.
  Session(SessionLoop& loop, UniqueFd socket, bool local, std::string address);
  ~Session();
  void Start();
  // Closes and ends all uses; nothing of them is left when this returns.
  void Cut();
  // Every few hundred milliseconds: time-outs.
  void Tick(int64_t now_ms);
  // Ends the uses that the socket's queue has drained past. True when some are left.
  bool LookAtDraining();
  bool authenticated() const { return peer_.has_value(); }

 private:
  static constexpr size_t kMaxReplies = 128;
  static constexpr size_t kMaxDraining = 256;

  // An admitted use. Pooled, so that a revocation needs no more than a pointer to it.
  struct Use {
    Session* session = nullptr;
    uint64_t serial = 0;
    std::unique_ptr<Access> access;
  };
  using UsePtr = std::unique_ptr<Use>;

  struct Reply {
    FrameBytes head;
    size_t head_sent = 0;
    uint64_t id = 0;
    UsePtr use;  // of a READ: payload follows
    uint64_t payload = 0;
    uint64_t sent = 0;
    UniqueFd descriptor;
    bool last = false;  // the connection is closed behind it
  };
  using ReplyPtr = std::unique_ptr<Reply>;

  // What the bytes behind a WRITE's header are for, or a COPY in pieces.
  struct Incoming {
    uint64_t id = 0;
    UsePtr use;  // null: the payload is dropped
    uint64_t done = 0;
    uint64_t total = 0;
  };
  struct Copying {
    uint64_t id = 0;
    UsePtr use;
    const std::byte* source = nullptr;
    uint64_t operation_offset = 0;
    uint64_t done = 0;
    uint64_t total = 0;
    std::vector<uint64_t> sums;
  };
  struct PeerMemory {
    Mapping mapping;
    std::optional<Error> refused;
  };

  // ---- receiving
  void WaitReadable();
  void OnReadable();
  bool ReceivePayload(size_t* budget);
  bool ReceiveFrames(size_t* budget);
  void ParseFrames();
  bool ParseFrame();
  bool MayTakeRequests() const;
  void Resume();

  // ---- requests
  void OnFrame(const FrameHeader& header, std::span<const std::byte> body);
  void OnHello(const FrameHeader& header, std::span<const std::byte> body);
  void OnRead(const FrameHeader& header, std::span<const std::byte> body);
  void OnWrite(const FrameHeader& header, std::span<const std::byte> body);
  void OnLocalFrame(const FrameHeader& header, std::span<const std::byte> body);
  void OnAttach(const FrameHeader& header, std::span<const std::byte> body);
  void OnAdmit(const FrameHeader& header, std::span<const std::byte> body);
  void OnMap(std::span<const std::byte> body);
  Result<Mapping> MapPeerMemory(const MapRequest& map, int fd);
  void OnCopy(const FrameHeader& header, std::span<const std::byte> body);
  void ScheduleCopy();
  void CopyMore();
  void IncomingDone();
  Result<UsePtr> Admit(AccessRequest::Kind kind, const DataRequest& request);
  void Revoked(uint64_t serial);

  // ---- sending
  ReplyPtr NewReply(uint64_t id);
  void Send(ReplyPtr reply);
  void SendBare(FrameType type, uint64_t id);
  void SendError(uint64_t id, const Error& error);
  // The peer breaks the rules: counts it, answers (unless it cannot be one of ours) and closes.
  void Refuse(const Error& error, bool answer = true);
  void SendMore();
  void ScheduleSend();
  enum class Step : uint8_t { kProgress, kFull, kCut };
  Step SendHeads();
  Step SendPayload(size_t* budget);
  void FinishReply();

  void FreeUse(UsePtr use);
  void ReleaseDrained();
  void Progress();
  bool InLoop() const;

  SessionLoop& loop_;
  asio::posix::stream_descriptor socket_;
  const bool local_;
  const std::string address_;
  bool cut_ = false;
  bool closing_ = false;  // a last reply is on its way: nothing more is read
  std::optional<PeerIdentity> peer_;

  FrameInput in_;
  bool waiting_read_ = false;
  std::optional<Incoming> incoming_;
  std::optional<Copying> copying_;
  std::unordered_map<uint64_t, UsePtr> held_;  // by the ADMIT's id
  std::unordered_map<uint32_t, PeerMemory> maps_;

  std::deque<ReplyPtr> replies_;
  bool waiting_write_ = false;
  bool send_scheduled_ = false;
  bool in_turn_ = false;     // OnReadable sends at its end
  uint64_t sent_bytes_ = 0;  // all that the socket has taken
  struct Draining {
    uint64_t end = 0;  // in sent_bytes_
    UsePtr use;
  };
  std::deque<Draining> draining_;

  std::vector<UsePtr> spare_uses_;
  std::vector<ReplyPtr> spare_replies_;
  uint64_t next_serial_ = 1;
  int64_t started_ms_ = 0;
  int64_t progress_ms_ = 0;
};

}  // namespace tiercel::transfer
