// ObjectTable: from key hashes to object slots, one per namespace.
//
// Extendible hashing: a directory over the top bits of the hash names pages of 512 entries; a page that fills up is
// split in two, which moves a few hundred entries and nothing else, so no call ever rehashes a large table.
// Compared with a doubling array this costs one more look (the directory, small and hot) and gives the scan its
// guarantee: a page holds an interval of hashes, so a cursor is a position in hash order, which splits, merges and
// replaced values leave alone. Whatever is present from start to end has one hash, and the cursor passes it.
//
// A page is 64 lines of one cache line: eight tags (the hash's top 32 bits) and eight slots. An entry lives in the
// line that its tag names or, while that is full, in the lines behind it; a line that is not full ends a search.
// Keys made to collide in their tags fill a page that no split can empty: such a page grows a chain instead, and the
// directory never holds more than a few entries for each page.
#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "server/core/chunk.h"

namespace tiercel::core {

// Pages of all tables.
class PagePool {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kLines = 64, kWays = 8;

  struct Line {
    uint32_t tags[kWays];
    uint32_t slots[kWays];  // packed to the front; 0 is free
  };
  struct alignas(4096) Page {
    Line lines[kLines];
  };
  struct Header {
    uint32_t count = 0;
    uint32_t next = kNone;  // chain of an unsplittable page; of unused pages
    uint8_t depth = 0;      // hash bits that all its entries share
  };

  uint32_t Allocate();
  void Free(uint32_t page);
  Page& page(uint32_t id) { return bases_[id >> kShift][id & kMask]; }
  const Page& page(uint32_t id) const { return bases_[id >> kShift][id & kMask]; }
  Header& header(uint32_t id) { return headers_[id]; }
  const Header& header(uint32_t id) const { return headers_[id]; }
  uint64_t room() const { return unused_ + (headers_.empty() ? 0 : bases_.size() * (kMask + 1) - headers_.size()); }
  uint64_t memory_bytes() const {
    return headers_.size() * sizeof(Page) + headers_.capacity() * sizeof(Header) + bases_.capacity() * sizeof(void*);
  }

 private:
  static constexpr int kShift = 9;  // pages in a chunk: 512
  static constexpr uint32_t kMask = (1u << kShift) - 1;
  static_assert(sizeof(Page) == 4096 && (sizeof(Page) << kShift) == kHugeChunkBytes);
  std::vector<Chunk> chunks_;
  std::vector<Page*> bases_;
  std::vector<Header> headers_;
  uint32_t free_ = kNone;
  uint64_t unused_ = 0;
};

class ObjectTable {
 public:
  explicit ObjectTable(PagePool* pool);
  ~ObjectTable();
  ObjectTable(const ObjectTable&) = delete;
  ObjectTable& operator=(const ObjectTable&) = delete;

  // The slot with this hash for which match(slot) is true; 0: none.
  template <typename Match>
  uint32_t Find(uint64_t hash, Match&& match) const {
    const uint32_t tag = TagOf(hash);
    for (uint32_t id = PageOf(hash); id != PagePool::kNone; id = pool_->header(id).next) {
      const PagePool::Page& page = pool_->page(id);
      uint32_t at = LineOf(tag);
      for (uint32_t i = 0; i < PagePool::kLines; ++i, at = (at + 1) % PagePool::kLines) {
        const PagePool::Line& line = page.lines[at];
        for (uint32_t hits = Matches(line, tag); hits != 0; hits &= hits - 1) {
          const uint32_t slot = line.slots[__builtin_ctz(hits)];
          if (slot != 0 && match(slot)) return slot;
        }
        if (line.slots[PagePool::kWays - 1] == 0) break;
      }
    }
    return 0;
  }

  // REQUIRES: the pair is not there.
  void Insert(uint64_t hash, uint32_t slot);
  // REQUIRES: the pair is there.
  void Replace(uint64_t hash, uint32_t old_slot, uint32_t new_slot);
  void Erase(uint64_t hash, uint32_t slot);

  // First step of a look-up made ready: the line. Second: the slot of the first entry with this tag, 0: none.
  void Prefetch(uint64_t hash) const { __builtin_prefetch(&pool_->page(PageOf(hash)).lines[LineOf(TagOf(hash))]); }
  uint32_t Peek(uint64_t hash) const {
    const PagePool::Line& line = pool_->page(PageOf(hash)).lines[LineOf(TagOf(hash))];
    const uint32_t hits = Matches(line, TagOf(hash));
    return hits == 0 ? 0 : line.slots[__builtin_ctz(hits)];
  }

  // Visits all entries of some interval of hashes that starts at `cursor`: about `count`, from one page. Returns
  // where the next interval starts; 0: the end was reached. visit(slot) must not change the table.
  template <typename Visit>
  uint64_t Scan(uint64_t cursor, uint32_t count, Visit&& visit) const {
    if (cursor > UINT32_MAX) return 0;
    const auto from = static_cast<uint32_t>(cursor);
    uint64_t to = 0;
    uint32_t id = Interval(from, count, &to);
    for (; id != PagePool::kNone; id = pool_->header(id).next) {
      if (pool_->header(id).count == 0) continue;
      for (const PagePool::Line& line : pool_->page(id).lines) {
        for (uint32_t i = 0; i < PagePool::kWays && line.slots[i] != 0; ++i) {
          if (line.tags[i] >= from && line.tags[i] < to) visit(line.slots[i]);
        }
      }
    }
    return to > UINT32_MAX ? 0 : to;
  }

  // An entry drawn about evenly; 0 when the table is empty or luck ran out.
  uint32_t Any(Random* random) const;

  // Some entry of the first page in hash order that has one, for emptying the table; 0: it is empty. `*hint` starts
  // at 0 and lets the next call go on where this one was.
  uint32_t First(uint32_t* hint) const;

  uint64_t size() const { return size_; }
  uint64_t memory_bytes() const { return directory_.capacity() * sizeof(uint32_t); }
  // Walks everything and stops on a broken rule.
  void Check() const;

 private:
  static constexpr uint32_t kFull = 440;   // entries at which a page is split
  static constexpr uint32_t kSparse = 96;  // and below which it looks for its twin
  static constexpr uint32_t kMergeInto = 224;
  static constexpr int kMaxDepth = 30;

  static uint32_t TagOf(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }
  static uint32_t LineOf(uint32_t tag) { return (tag * 0x9E3779B1u) >> 26; }
  // Bit i: way i has this tag. Four tags are compared at once: a look-up spends most of its instructions here.
  static uint32_t Matches(const PagePool::Line& line, uint32_t tag) {
    using Four = uint32_t __attribute__((vector_size(16)));
    using Two = uint64_t __attribute__((vector_size(16)));
    static_assert(PagePool::kWays == 8);
    Four low, high;
    __builtin_memcpy(&low, line.tags, sizeof(low));
    __builtin_memcpy(&high, line.tags + 4, sizeof(high));
    const Four wanted = {tag, tag, tag, tag};
    const Four low_bits = {1, 2, 4, 8}, high_bits = {16, 32, 64, 128};
    const Four hits = (Four(low == wanted) & low_bits) | (Four(high == wanted) & high_bits);
    const auto halves = Two(hits);
    const uint64_t both = halves[0] | halves[1];
    return static_cast<uint32_t>(both | both >> 32);
  }
  uint32_t DirectoryIndex(uint64_t hash) const { return static_cast<uint32_t>((hash >> 1) >> (63 - depth_)); }
  uint32_t PageOf(uint64_t hash) const { return directory_[DirectoryIndex(hash)]; }

  uint32_t Interval(uint32_t from, uint32_t count, uint64_t* to) const;
  bool InsertIntoPage(uint32_t id, uint32_t tag, uint32_t slot);
  void InsertIntoChain(uint32_t id, uint32_t tag, uint32_t slot);
  bool EraseFromPage(uint32_t id, uint32_t tag, uint32_t slot);
  bool MayGrow(uint32_t id) const;
  void Split(uint32_t id, uint64_t hash);
  void MergeIfSparse(uint64_t hash);
  void TakeAll(uint32_t id, std::vector<uint64_t>* entries);

  PagePool* const pool_;
  std::vector<uint32_t> directory_;
  int depth_ = 0;
  uint64_t pages_ = 1;
  uint64_t size_ = 0;
  std::vector<uint64_t> moved_;  // scratch of Split and Merge: tag << 32 | slot
};

}  // namespace tiercel::core
