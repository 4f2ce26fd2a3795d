// Rows: memory, and the life of objects. Their defaults are those of core::Options, which a test holds equal.
#include <limits>

#include "server/config/rows.h"

namespace tiercel::config {
namespace {

constexpr int64_t kSecond = 1000, kMinute = 60 * kSecond, kHour = 60 * kMinute, kDay = 24 * kHour;
constexpr uint64_t kKb = 1024, kMb = kKb * kKb, kTb = kMb * kMb;
constexpr size_t kMaxSegments = 64;
// An extent allocator counts to 2^44; no machine of today has more for one segment.
constexpr uint64_t kMaxSegmentBytes = (uint64_t{1} << 44) - 1;

Option Dram() {
  Option option{.name = "dram",
                .alias = "maxmemory",
                .syntax = "SIZE...",
                .default_note = "a quarter of the memory, at most half of what is available",
                .allowed = "1mb to 15tb each, up to 64 segments",
                .help =
                    "Memory that the store gives, as a segment for each size. Give several sizes, or the directive "
                    "several times, for several segments.",
                .max_words = kMaxSegments,
                .immutable = true,
                .repeatable = true};
  option.set = [](Words words, Settings* settings) -> Status {
    for (const std::string& word : words) {
      const std::optional<uint64_t> bytes = ParseSize(word);
      if (!bytes) return Bad("argument must be a memory value");
      if (*bytes < kMb || *bytes > kMaxSegmentBytes) return Bad("argument must be between 1mb and 15tb inclusive");
      if (settings->dram_bytes.size() == kMaxSegments) return Bad("there are 64 segments already");
      settings->dram_bytes.push_back(*bytes);
    }
    return Ok();
  };
  option.clear = [](Settings* settings) { settings->dram_bytes.clear(); };
  option.lines = [](const Settings& settings) {
    std::vector<std::string> lines;
    lines.reserve(settings.dram_bytes.size());
    for (uint64_t bytes : settings.dram_bytes) lines.push_back(FormatSize(bytes));
    return lines;
  };
  option.shown = [](const Settings& settings) { return fmt::format("{}", fmt::join(settings.dram_bytes, " ")); };
  option.alias_shown = [](const Settings& settings) {
    uint64_t total = 0;
    for (uint64_t bytes : settings.dram_bytes) total += bytes;
    return fmt::format("{}", total);
  };
  return option;
}

void AddMemoryRows(Rows* rows) {
  rows->In(Section::kMemory);
  rows->Add(Dram());
  rows->Add(Choice("dram-huge-pages", "try",
                   Names<HugePages>{{"no", HugePages::kNo}, {"try", HugePages::kTry}, {"yes", HugePages::kYes}},
                   TIERCEL_FIELD(dram_huge_pages),
                   "Huge pages for segments. try: from the pool that vm.nr_hugepages reserves when enough of it is "
                   "free, else transparent ones where the kernel is set so. yes: from the pool, or the store does not "
                   "start."))
      .immutable = true;
  rows->Add(Size("metadata-max", "", 16 * kMb, 64 * kTb, TIERCEL_FIELD(core.metadata_max_bytes),
                 "Memory for the master's own tables. A put beyond it is refused with -OOM."))
      .default_note = "1/8 of the memory";
  rows->Add(Size("view-max-bytes", "", kMb, 64 * kTb, TIERCEL_FIELD(view_max_bytes),
                 "Bytes of a store that clients may hold in zero-copy views at the same time; such bytes cannot be "
                 "used again until they are let go."))
      .default_note = "1/8 of dram";
}

void AddLeaseRows(Rows* rows) {
  rows->In(Section::kLeases);
  rows->Add(Time("lease-ttl", "10s", 1, kDay, TIERCEL_FIELD(core.lease_ttl_ms),
                 "How long what a look-up has named stays where it is."));
  rows->Add(Time("lease-max", "60s", 1, kDay, TIERCEL_FIELD(core.lease_max_ms),
                 "The longest lease that a caller may ask for."));
  rows->Add(
      Ratio("lease-max-ratio", "0.5", 0, 1, TIERCEL_FIELD(core.lease_max_ratio),
            "Share of a tier's bytes that may be leased at the same time. Beyond it look-ups still answer, with a "
            "lease of 0. Must be below the low watermark, which is eviction-high-watermark-ratio less "
            "eviction-ratio."));
  rows->Add(Bool("exists-grants-lease", "yes", TIERCEL_FIELD(core.exists_grants_lease),
                 "Whether EXISTS grants a lease, within half of that share."));
  rows->Add(Time("grant-ttl", "60s", kSecond, kHour, TIERCEL_FIELD(core.grant_ttl_ms),
                 "How long a grant opens its bytes at a store. Access control only; no byte's safety depends on it."));
}

void AddPinRows(Rows* rows) {
  rows->In(Section::kPins);
  rows->Add(Time("soft-pin-default", "30m", 0, 365 * kDay, TIERCEL_FIELD(core.soft_pin_default_ms),
                 "Length of a soft pin that is asked for without one. It runs from the moment an object becomes "
                 "readable; such objects are evicted only when nothing else is left. At most soft-pin-max."));
  rows->Add(Time("soft-pin-max", "24h", 0, 365 * kDay, TIERCEL_FIELD(core.soft_pin_max_ms),
                 "The longest soft pin that a caller may ask for."));
  rows->Add(Ratio("hard-pin-max-ratio", "0.25", 0, 1, TIERCEL_FIELD(core.hard_pin_max_ratio),
                  "Share of a tier's bytes that hard pins may keep out of eviction."));
}

void AddPutRows(Rows* rows) {
  rows->In(Section::kPuts);
  rows->Add(Time("put-start-discard-timeout", "30s", kSecond, kHour, TIERCEL_FIELD(core.put_start_discard_timeout_ms),
                 "A put without a sign of life for this long may be taken over by another writer of its key, and is "
                 "given up."));
  rows->Add(Time("put-start-release-timeout", "600s", kSecond, kDay, TIERCEL_FIELD(core.put_start_release_timeout_ms),
                 "How long a store may take to close a put before it must join again."));
  rows->Add(Time("put-wait", "200ms", 0, kMinute, TIERCEL_FIELD(put_wait_ms),
                 "How long a SET waits for space before it is refused with -OOM."));
}

void AddEvictionRows(Rows* rows) {
  rows->In(Section::kEviction);
  rows->Add(Ratio("eviction-high-watermark-ratio", "0.9", 0.1, 1, TIERCEL_FIELD(core.eviction_high_watermark_ratio),
                  "Share of a tier's bytes in use above which the coldest objects are evicted."));
  rows->Add(Ratio("eviction-ratio", "0.05", 0, 0.5, TIERCEL_FIELD(core.eviction_ratio),
                  "Share of a tier's bytes that is freed then, at least."));
  rows->Add(Fixed("eviction-policy", "lru",
                  "Which objects go first. This version knows one policy: the least recently used unpinned and "
                  "unleased object."));
  rows->Add(Choice("allocation-strategy", "random",
                   Names<core::AllocationStrategy>{
                       {"random", core::AllocationStrategy::kRandom},
                       {"free-ratio-first", core::AllocationStrategy::kFreeRatioFirst},
                       {"local-first", core::AllocationStrategy::kLocalFirst},
                   },
                   TIERCEL_FIELD(core.allocation_strategy),
                   "Which segments new objects go to: any; those with the largest free share; those on the writer's "
                   "host."));
}

void AddStoreRows(Rows* rows) {
  rows->In(Section::kStores);
  rows->Add(Time("ping-interval", "1s", 100, 10 * kSecond, TIERCEL_FIELD(core.ping_interval_ms),
                 "How often stores say that they are there."));
  rows->Add(Time("store-timeout", "10s", kSecond, kHour, TIERCEL_FIELD(core.store_timeout_ms),
                 "A store that is silent for this long is away: its objects are not offered, and kept."));
  rows->Add(Time("store-forget", "24h", kSecond, 365 * kDay, TIERCEL_FIELD(core.store_forget_ms),
                 "A store that is away for this long is gone, and its objects with it."));
}

void AddIndexRows(Rows* rows) {
  rows->In(Section::kIndex);
  rows->Add(Fixed("index", "no",
                  "Whether metadata survive a restart. This version keeps none: a restarted master starts empty."));
}

}  // namespace

void AddCacheRows(Rows* rows) {
  AddMemoryRows(rows);
  AddLeaseRows(rows);
  AddPinRows(rows);
  AddPutRows(rows);
  AddEvictionRows(rows);
  AddStoreRows(rows);
  AddIndexRows(rows);
}

}  // namespace tiercel::config
