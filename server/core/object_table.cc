#include "server/core/object_table.h"

#include <algorithm>
#include <cstring>

namespace tiercel::core {

using Line = PagePool::Line;
using Page = PagePool::Page;
constexpr uint32_t kLines = PagePool::kLines;
constexpr uint32_t kWays = PagePool::kWays;
constexpr uint32_t kNone = PagePool::kNone;

// ---- pages

uint32_t PagePool::Allocate() {
  uint32_t id = free_;
  if (id != kNone) {
    free_ = headers_[id].next;
    --unused_;
  } else {
    id = static_cast<uint32_t>(headers_.size());
    if ((id >> kShift) >= bases_.size()) {
      chunks_.emplace_back(kHugeChunkBytes);
      bases_.push_back(reinterpret_cast<Page*>(chunks_.back().data()));
    }
    headers_.emplace_back();
  }
  headers_[id] = Header();
  std::memset(&page(id), 0, sizeof(Page));
  return id;
}

void PagePool::Free(uint32_t id) {
  headers_[id].next = free_;
  free_ = id;
  ++unused_;
}

// ---- one page

namespace {

uint32_t CountOf(const Line& line) {
  uint32_t n = 0;
  while (n < kWays && line.slots[n] != 0) ++n;
  return n;
}

// How far line `to` lies behind line `from`, in the order of a search.
uint32_t Behind(uint32_t from, uint32_t to) { return (to + kLines - from) % kLines; }

}  // namespace

bool ObjectTable::InsertIntoPage(uint32_t id, uint32_t tag, uint32_t slot) {
  PagePool::Header& header = pool_->header(id);
  if (header.count >= kFull) return false;
  Page& page = pool_->page(id);
  uint32_t at = LineOf(tag);
  while (page.lines[at].slots[kWays - 1] != 0) at = (at + 1) % kLines;
  Line& line = page.lines[at];
  const uint32_t n = CountOf(line);
  line.tags[n] = tag;
  line.slots[n] = slot;
  ++header.count;
  return true;
}

void ObjectTable::InsertIntoChain(uint32_t id, uint32_t tag, uint32_t slot) {
  while (!InsertIntoPage(id, tag, slot)) {
    if (pool_->header(id).next == kNone) {
      const uint32_t more = pool_->Allocate();
      ++pages_;
      pool_->header(more).depth = pool_->header(id).depth;
      pool_->header(id).next = more;
    }
    id = pool_->header(id).next;
  }
}

bool ObjectTable::EraseFromPage(uint32_t id, uint32_t tag, uint32_t slot) {
  Page& page = pool_->page(id);
  uint32_t at = LineOf(tag), way = kWays;
  for (uint32_t i = 0;; ++i, at = (at + 1) % kLines) {
    const Line& line = page.lines[at];
    for (uint32_t hits = Matches(line, tag); hits != 0 && way == kWays; hits &= hits - 1) {
      const auto w = static_cast<uint32_t>(__builtin_ctz(hits));
      if (line.slots[w] == slot) way = w;
    }
    if (way != kWays) break;
    if (line.slots[kWays - 1] == 0 || i + 1 == kLines) return false;
  }
  --pool_->header(id).count;
  // Fills the hole with the line's last entry. A line that was full may have pushed entries behind it: one of them
  // comes back, which makes a hole there, and so on.
  for (;;) {
    Line& line = page.lines[at];
    const uint32_t last = CountOf(line) - 1;
    const bool was_full = last == kWays - 1;
    line.tags[way] = line.tags[last];
    line.slots[way] = line.slots[last];
    line.slots[last] = 0;
    line.tags[last] = 0;
    if (!was_full) return true;
    bool moved = false;
    for (uint32_t from = (at + 1) % kLines; from != at && !moved; from = (from + 1) % kLines) {
      Line& source = page.lines[from];
      const uint32_t n = CountOf(source);
      for (uint32_t i = 0; i < n; ++i) {
        if (Behind(LineOf(source.tags[i]), from) < Behind(at, from)) continue;
        line.tags[last] = source.tags[i];
        line.slots[last] = source.slots[i];
        at = from;
        way = i;
        moved = true;
        break;
      }
      if (!moved && n < kWays) return true;
    }
    if (!moved) return true;
  }
}

void ObjectTable::TakeAll(uint32_t id, std::vector<uint64_t>* entries) {
  for (const Line& line : pool_->page(id).lines) {
    for (uint32_t i = 0; i < kWays && line.slots[i] != 0; ++i) {
      entries->push_back(uint64_t{line.tags[i]} << 32 | line.slots[i]);
    }
  }
  pool_->header(id).count = 0;
  std::memset(&pool_->page(id), 0, sizeof(Page));
}

// ---- the table

ObjectTable::ObjectTable(PagePool* pool) : pool_(pool) { directory_.push_back(pool->Allocate()); }

ObjectTable::~ObjectTable() {
  uint32_t last = kNone;
  for (uint32_t id : directory_) {
    if (id == last) continue;
    last = id;
    while (id != kNone) {
      const uint32_t next = pool_->header(id).next;
      pool_->Free(id);
      id = next;
    }
  }
}

// A directory of several entries for each page would be the doing of chosen hashes, not of many keys.
bool ObjectTable::MayGrow(uint32_t id) const {
  const int depth = pool_->header(id).depth;
  if (depth >= kMaxDepth) return false;
  return depth < depth_ || directory_.size() <= 16 * pages_;
}

void ObjectTable::Insert(uint64_t hash, uint32_t slot) {
  const uint32_t tag = TagOf(hash);
  uint32_t id = PageOf(hash);
  while (pool_->header(id).count >= kFull && MayGrow(id)) {
    Split(id, hash);
    id = PageOf(hash);
  }
  InsertIntoChain(id, tag, slot);
  ++size_;
}

void ObjectTable::Split(uint32_t id, uint64_t hash) {
  if (pool_->header(id).depth == depth_) {
    std::vector<uint32_t> doubled(directory_.size() * 2);
    for (size_t i = 0; i < directory_.size(); ++i) doubled[2 * i] = doubled[2 * i + 1] = directory_[i];
    directory_.swap(doubled);
    ++depth_;
  }
  const int depth = pool_->header(id).depth + 1;
  const uint32_t high = pool_->Allocate();
  ++pages_;
  moved_.clear();
  TakeAll(id, &moved_);
  for (uint32_t more = pool_->header(id).next; more != kNone;) {
    TakeAll(more, &moved_);
    const uint32_t next = pool_->header(more).next;
    pool_->Free(more);
    --pages_;
    more = next;
  }
  pool_->header(id).next = kNone;
  pool_->header(id).depth = pool_->header(high).depth = static_cast<uint8_t>(depth);
  // The directory's entries for this page are those that share its first depth - 1 bits; the upper half moves.
  const uint32_t span = 1u << (depth_ - depth);
  const uint32_t first = DirectoryIndex(hash) & ~(2 * span - 1);
  std::fill_n(directory_.begin() + first + span, span, high);
  for (const uint64_t entry : moved_) {
    const auto tag = static_cast<uint32_t>(entry >> 32);
    InsertIntoChain((tag >> (32 - depth) & 1) != 0 ? high : id, tag, static_cast<uint32_t>(entry));
  }
}

void ObjectTable::Replace(uint64_t hash, uint32_t old_slot, uint32_t new_slot) {
  const uint32_t tag = TagOf(hash);
  for (uint32_t id = PageOf(hash); id != kNone; id = pool_->header(id).next) {
    Page& page = pool_->page(id);
    uint32_t at = LineOf(tag);
    for (uint32_t i = 0; i < kLines; ++i, at = (at + 1) % kLines) {
      Line& line = page.lines[at];
      for (uint32_t hits = Matches(line, tag); hits != 0; hits &= hits - 1) {
        uint32_t& slot = line.slots[__builtin_ctz(hits)];
        if (slot != old_slot) continue;
        slot = new_slot;
        return;
      }
      if (line.slots[kWays - 1] == 0) break;
    }
  }
  TIERCEL_CHECK(false, "the entry to replace is there");
}

void ObjectTable::Erase(uint64_t hash, uint32_t slot) {
  const uint32_t tag = TagOf(hash), first = PageOf(hash);
  uint32_t before = kNone, id = first;
  while (!EraseFromPage(id, tag, slot)) {
    before = id;
    id = pool_->header(id).next;
    TIERCEL_CHECK(id != kNone, "the entry to erase is there");
  }
  --size_;
  if (id != first && pool_->header(id).count == 0) {
    pool_->header(before).next = pool_->header(id).next;
    pool_->Free(id);
    --pages_;
  }
  if (pool_->header(first).count < kSparse) MergeIfSparse(hash);
}

// Joins a page with the one that it was once split from, so that a table which has shrunk gives its pages back.
void ObjectTable::MergeIfSparse(uint64_t hash) {
  const uint32_t id = PageOf(hash);
  const int depth = pool_->header(id).depth;
  if (depth == 0 || pool_->header(id).next != kNone) return;
  const uint32_t span = 1u << (depth_ - depth);
  const uint32_t first = DirectoryIndex(hash) & ~(span - 1);
  const uint32_t twin_first = first ^ span, twin = directory_[twin_first];
  const PagePool::Header& other = pool_->header(twin);
  if (other.depth != depth || other.next != kNone) return;
  if (other.count + pool_->header(id).count > kMergeInto) return;
  moved_.clear();
  TakeAll(twin, &moved_);
  pool_->Free(twin);
  --pages_;
  std::fill_n(directory_.begin() + twin_first, span, id);
  pool_->header(id).depth = static_cast<uint8_t>(depth - 1);
  for (const uint64_t entry : moved_) {
    InsertIntoChain(id, static_cast<uint32_t>(entry >> 32), static_cast<uint32_t>(entry));
  }
}

// The page in whose interval `from` lies, and where to stop to see about `count` of its entries.
uint32_t ObjectTable::Interval(uint32_t from, uint32_t count, uint64_t* to) const {
  const uint32_t id = PageOf(uint64_t{from} << 32);
  const PagePool::Header& header = pool_->header(id);
  const uint64_t span = uint64_t{1} << (32 - header.depth);
  const uint64_t end = (from & ~(span - 1)) + span;
  uint64_t entries = header.count;
  for (uint32_t more = header.next; more != kNone; more = pool_->header(more).next)
    entries += pool_->header(more).count;
  const uint64_t step = entries <= count ? span : std::max<uint64_t>(1, span / entries * std::max(count, 1u));
  *to = std::min(end, from + step);
  return id;
}

uint32_t ObjectTable::Any(Random* random) const {
  if (size_ == 0) return 0;
  constexpr int kTries = 1024;
  // A random cell of a random page of the directory: pages are met in proportion to their share of the hashes,
  // which is what makes entries about equally likely.
  for (int i = 0; i < kTries; ++i) {
    const uint64_t draw = random->Next();
    const Line& line = pool_->page(PageOf(draw)).lines[draw & (kLines - 1)];
    const uint32_t slot = line.slots[(draw >> 6) % kWays];
    if (slot != 0) return slot;
  }
  uint32_t hint = DirectoryIndex(random->Next());
  const uint32_t slot = First(&hint);
  if (slot != 0) return slot;
  hint = 0;
  return First(&hint);
}

uint32_t ObjectTable::First(uint32_t* hint) const {
  for (; *hint < directory_.size(); ++*hint) {
    for (uint32_t id = directory_[*hint]; id != kNone; id = pool_->header(id).next) {
      if (pool_->header(id).count == 0) continue;
      for (const Line& line : pool_->page(id).lines) {
        if (line.slots[0] != 0) return line.slots[0];
      }
    }
  }
  return 0;
}

void ObjectTable::Check() const {
  uint64_t size = 0, pages = 0;
  for (uint32_t i = 0; i < directory_.size();) {
    const int depth = pool_->header(directory_[i]).depth;
    const uint32_t span = 1u << (depth_ - depth);
    TIERCEL_CHECK(i % span == 0);
    for (uint32_t j = i; j < i + span; ++j) TIERCEL_CHECK(directory_[j] == directory_[i]);
    for (uint32_t id = directory_[i]; id != kNone; id = pool_->header(id).next) {
      ++pages;
      uint32_t count = 0;
      const Page& page = pool_->page(id);
      for (uint32_t at = 0; at < kLines; ++at) {
        const Line& line = page.lines[at];
        const uint32_t n = CountOf(line);
        count += n;
        for (uint32_t w = 0; w < kWays; ++w) TIERCEL_CHECK((w < n) == (line.slots[w] != 0));
        for (uint32_t w = 0; w < n; ++w) {
          TIERCEL_CHECK(depth == 0 || line.tags[w] >> (32 - depth) == i / span);
          for (uint32_t on = LineOf(line.tags[w]); on != at; on = (on + 1) % kLines) {
            TIERCEL_CHECK(CountOf(page.lines[on]) == kWays, "a search would end before it finds the entry");
          }
        }
      }
      TIERCEL_CHECK(count == pool_->header(id).count);
      size += count;
    }
    i += span;
  }
  TIERCEL_CHECK(size == size_);
  TIERCEL_CHECK(pages == pages_);
}

}  // namespace tiercel::core
