#include "base/extent_allocator.h"

namespace tiercel {

ExtentList::ExtentList(std::span<const Extent> all) {
  for (const Extent& extent : all) push_back(extent);
}

ExtentList::ExtentList(const ExtentList& other) { *this = other; }

ExtentList& ExtentList::operator=(const ExtentList& other) {
  if (this == &other) return *this;
  first_ = other.first_;
  size_ = other.size_;
  if (size_ > 1) {
    if (more_ == nullptr) more_ = std::make_unique<std::vector<Extent>>();
    *more_ = *other.more_;
  }
  return *this;
}

void ExtentList::push_back(Extent extent) {
  if (size_ == 0) {
    first_ = extent;
  } else {
    if (more_ == nullptr) more_ = std::make_unique<std::vector<Extent>>();
    if (size_ == 1) more_->assign(1, first_);
    more_->push_back(extent);
  }
  ++size_;
}

// Keeps the vector: lists that are filled again and again stop allocating.
void ExtentList::clear() { size_ = 0; }

uint64_t ExtentList::bytes() const {
  uint64_t sum = 0;
  for (const Extent& extent : *this) sum += extent.length;
  return sum;
}

bool ExtentList::operator==(const ExtentList& other) const {
  if (size_ != other.size_) return false;
  for (uint32_t i = 0; i < size_; ++i) {
    if ((*this)[i] != other[i]) return false;
  }
  return true;
}

}  // namespace tiercel
