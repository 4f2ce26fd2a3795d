// The client's end of a data connection over a stream socket: hand-shake, sending, receiving. tcp uses it as it is;
// shm adds frames of its own over a UNIX socket.
//
// Sending is a role, not a lock: whoever finds it free takes it (a posting thread, or the driver when the socket
// can be written again), sends without holding the mutex until everything is out or the socket is full, and others
// only leave their slices in the queue meanwhile. So the bytes of a write go from the caller's memory into the
// socket on the caller's thread.
//
// Receiving belongs to the driver. Payload goes straight from the socket into the slice's memory, in pieces that
// the observer sees while they are in cache.
//
// Closing belongs to the driver too, and waits until the sender has left. Another thread that finds the connection
// broken shuts the socket down, which the driver then sees.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/fd.h"
#include "transfer/frame_input.h"
#include "transfer/frames.h"
#include "transfer/transport.h"

namespace tiercel::transfer {

class StreamRail : public Rail {
 public:
  // `socket`: non-blocking, connecting or connected. `where`: the address, for messages.
  StreamRail(UniqueFd socket, OpenRequest request, std::string where, RailHost* host);
  ~StreamRail() override;

  int fd() const override { return fd_.get(); }
  void Post(std::span<Slice* const> slices) override;
  bool Withdraw(const Slice* slice, uint64_t serial) override;
  void Flush() override { FlushIfFree(); }
  void OnEvents(bool readable, bool writable) override;
  void Abandon(const Slice* slice, uint64_t serial, const Error& why) override;
  void Close(const Error& error) override;

 protected:
  // A request that awaits its answer. The slice may be gone (abandoned); the answer is then read and dropped.
  struct Request {
    uint64_t id = 0;
    bool used = false;
    bool abandoned = false;  // the slice is gone, the answer is still to come
    Slice* slice = nullptr;
    bool sending = false;          // payload of a write is still going out
    bool copying = false;          // the answer has come; the engine calls Finish, or Abandon before that
    bool answered = false;         // while `sending`
    std::optional<Error> refusal;  // that answer
    uint64_t heard_before = 0;     // bytes received when it went out
  };
  // How a slice goes out.
  struct Encoded {
    bool streams_payload = false;
    int descriptor = -1;  // to be sent along with the first byte; not owned
  };

  // Appends the slice's frames to *out. Called by the sender, under the mutex.
  virtual Encoded EncodeLocked(Slice& slice, uint64_t id, FrameBytes* out);
  // A frame that only a derived class knows; false when it does not either. On the driver, without the mutex.
  virtual bool OnOtherFrame(const FrameHeader& header, std::span<const std::byte> body, UniqueFd* descriptor);
  // A refusal that a derived class knows a way around; true when it has dealt with the slice.
  virtual bool OnRefused(uint64_t id, Slice& slice, const Error& error);
  // The hand-shake ended well.
  virtual void OnUp() {}
  // A derived class's own request (one without a slice) was refused.
  virtual void OnOwnRefused(uint64_t id, const Error& error);
  // A deferred slice was abandoned before Finish. Under the mutex.
  virtual void OnAbandonedCopyLocked(Slice& slice) { (void)slice; }

  Request* FindLocked(uint64_t id);
  Request& NewRequestLocked(Slice* slice);
  void ForgetLocked(Request& request);
  void QueueAgainLocked(Slice* slice);  // its request is forgotten; it goes out anew, perhaps in another way
  // Frames that await no answer: appended to control_ under the mutex, then sent by FlushIfFree, before any slice.
  FrameBytes control_;
  void FlushIfFree();
  void Fail(Error error);  // driver: closes the rail at the end of its turn
  Error PeerError(std::string_view what) const;
  RailHost& host() { return *host_; }
  const OpenRequest& request() const { return request_; }

  enum class Phase : uint8_t { kConnecting, kGreeting, kReady, kClosed };
  std::mutex mu_;
  Phase phase_ = Phase::kConnecting;  // written by the driver under the mutex

 private:
  // ---- sending (stream_send.cc)
  void SendAll();  // REQUIRES: this thread has the sending role
  bool FillLocked();
  enum class Sent : uint8_t { kAll, kFull, kBroken };
  Sent SendSome();
  void PayloadSent(size_t bytes);

  // ---- receiving (stream_receive.cc)
  void Receive();
  bool ReceivePayload(size_t* budget);  // false: nothing more to be had now
  bool ReceiveFrames(size_t* budget);
  void ParseFrames();
  void OnFrame(const FrameHeader& header, std::span<const std::byte> body);
  void OnHelloOk(const FrameHeader& header, std::span<const std::byte> body);
  void OnErrorFrame(const FrameHeader& header, std::span<const std::byte> body);
  void OnReadOk(const FrameHeader& header);
  void OnWriteOk(const FrameHeader& header);
  void Answered(uint64_t id, const std::optional<Error>& refusal);
  void PayloadArrived(size_t bytes);
  void FinishConnecting();

  UniqueFd fd_;
  const OpenRequest request_;
  const std::string where_;
  RailHost* const host_;

  // Under mu_.
  Slice* queue_head_ = nullptr;
  Slice* queue_tail_ = nullptr;
  std::vector<Request> requests_;
  uint32_t abandoned_ = 0;  // requests without a slice
  uint64_t next_id_ = 1;
  bool sending_ = false;    // somebody has the role
  bool want_write_ = true;  // the socket is full (or connects): the driver sends on; exactly then EPOLLOUT is on
  bool broken_ = false;     // nothing is sent any more
  std::optional<Error> send_error_;
  std::condition_variable sender_left_;

  // The sender's.
  FrameBytes out_;
  size_t out_sent_ = 0;
  Encoded out_encoded_;
  Slice* stream_ = nullptr;  // whose payload follows out_
  uint64_t stream_sent_ = 0;
  uint64_t stream_id_ = 0;

  // The driver's.
  FrameInput in_;           // empty while payload is received
  bool receiving_ = false;  // payload of receiving_id_
  uint64_t receiving_id_ = 0;
  Slice* receiving_slice_ = nullptr;  // null: dropped
  uint64_t receiving_done_ = 0;
  uint64_t receiving_total_ = 0;
  std::optional<Error> failure_;
  std::atomic<uint64_t> heard_{0};  // bytes received; written by the driver
};

}  // namespace tiercel::transfer
