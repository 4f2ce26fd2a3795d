// A segment of memory, as the store sees it, whatever tier it belongs to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/fd.h"
#include "tiercel/result.h"
#include "tiercel/types.h"

namespace tiercel::tiers {

class Segment {
 public:
  virtual ~Segment() = default;
  virtual Tier tier() const = 0;
  virtual const std::string& name() const = 0;
  virtual SegmentRef ref() const = 0;
  virtual uint64_t size() const = 0;
  virtual std::byte* base() const = 0;  // all of it, mapped for reading and writing in this process only
  virtual int file() const = 0;         // holds the bytes at the same offsets (sendfile); -1: none
  // A descriptor through which other processes may map it read-only and never write; kNoPerm when not sealed.
  virtual Result<UniqueFd> ShareReadOnly() const = 0;
  virtual bool huge_pages() const = 0;
  // Bytes whose pages are there already; the rest appears on first use. Thread-safe.
  virtual uint64_t populated_bytes() const { return size(); }
  // Its bytes survive this process, under the same storage id and epoch.
  virtual bool kept() const { return false; }
  // The segment goes on under another epoch: what it holds is nobody's any more. Before anything is written under it.
  virtual Status NoteEpoch(uint32_t /*epoch*/) { return Ok(); }
};

}  // namespace tiercel::tiers
