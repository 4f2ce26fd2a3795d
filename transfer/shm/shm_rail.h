// A data connection over a UNIX socket, with shared memory.
//
// Requests are not held back until a segment is attached: ATTACH and the ADMITs behind it go out together, and the
// store answers in order. A read whose segment turns out not to be shareable is sent again as a plain READ.
#pragma once

#include <atomic>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "transfer/shm/peer_segments.h"
#include "transfer/shm/shared_memory.h"
#include "transfer/stream_rail.h"

namespace tiercel::transfer::shm {

class ShmRail final : public StreamRail, public std::enable_shared_from_this<ShmRail> {
 public:
  ShmRail(UniqueFd socket, OpenRequest request, std::string where, std::shared_ptr<PeerSegments> segments,
          std::function<void()> on_up, RailHost* host);

  void Finish(Slice& slice) override;
  // The connection stands: the store lives, and holds what it pinned for us. Any thread.
  bool Alive();
  void ReleasePin(uint64_t id, bool lazily);  // any thread
  void ForgetMemory(uint32_t id);             // any thread: memory of this process goes away

 private:
  Encoded EncodeLocked(Slice& slice, uint64_t id, FrameBytes* out) override;
  bool OnOtherFrame(const FrameHeader& header, std::span<const std::byte> body, UniqueFd* descriptor) override;
  bool OnRefused(uint64_t id, Slice& slice, const Error& error) override;
  void OnOwnRefused(uint64_t id, const Error& error) override;
  void OnAbandonedCopyLocked(Slice& slice) override;
  void OnUp() override { on_up_(); }

  bool OnAttachOk(const FrameHeader& header, std::span<const std::byte> body, UniqueFd* descriptor);
  bool OnAdmitOk(const FrameHeader& header);
  bool OnCopyOk(const FrameHeader& header, std::span<const std::byte> body);

  const std::shared_ptr<PeerSegments> segments_;
  const std::function<void()> on_up_;
  // Under mu_.
  std::unordered_map<uint64_t, SegmentRef> attaches_;  // by request
  std::unordered_set<uint32_t> mapped_;                // memory of ours that the store knows
  std::unordered_set<uint32_t> unmappable_;            // and that it will not map
  uint32_t copying_ = 0;                               // reads between ADMIT_OK and RELEASE
  std::vector<uint64_t> sums_;                         // the driver's
};

}  // namespace tiercel::transfer::shm
