// Memory of this process that stores on the same host may map: a memfd that cannot shrink any more.
#pragma once

#include <functional>
#include <memory>

#include "base/fd.h"
#include "transfer/transport.h"

namespace tiercel::transfer::shm {

class SharedMemory final : public MemoryRegion {
 public:
  // `on_end` is told the id when the memory goes, before it is unmapped.
  static Result<std::unique_ptr<SharedMemory>> Create(size_t bytes, std::function<void(uint32_t id)> on_end);
  ~SharedMemory() override;

  uint32_t id() const { return id_; }  // never repeated within this process
  int file() const { return file_.get(); }
  uint64_t size() const { return mapping_.size(); }

 private:
  SharedMemory() = default;
  uint32_t id_ = 0;
  UniqueFd file_;
  Mapping mapping_;
  std::function<void(uint32_t)> on_end_;
};

}  // namespace tiercel::transfer::shm
