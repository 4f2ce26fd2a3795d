// The reference model of the simulation: what clients may expect, written as simply as possible, and stores that hold
// real bytes and follow the store's side of the protocol.
//
// The model knows which version every key has, who may read it where, until when it is leased, and how each change
// that is not durable is undone. It does not know the order of eviction: the core says what it removed (events), and
// the model says whether it was allowed to.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/core/master.h"

namespace tiercel::core::sim {

struct KeyId {
  uint32_t name_space = 0;
  std::string key;
  auto operator<=>(const KeyId&) const = default;
};

struct ModelReplica {
  Incarnation store;
  SegmentRef place;
  bool operator==(const ModelReplica&) const = default;
  auto operator<=>(const ModelReplica&) const = default;
};

struct ModelObject {
  Version version;
  uint64_t size = 0;
  int64_t expire_at_ms = 0;
  bool hard_pin = false;
  std::vector<ModelReplica> replicas;
};

class Model {
 public:
  std::map<KeyId, ModelObject> objects;
  std::map<Version, int64_t> leased_until;  // by version, boot clock
  std::map<Version, int> reads;             // BeginRead without EndRead

  // ---- undoing: what has not become durable
  struct Change {
    Seq seq = 0;
    std::function<void()> undo;
  };
  std::vector<Change> changes;
  void Durable(Seq up_to) {
    std::erase_if(changes, [&](const Change& c) { return c.seq <= up_to; });
  }
  void UndoAll() {
    for (auto change = changes.rbegin(); change != changes.rend(); ++change) change->undo();
    changes.clear();
  }
  void Note(Seq seq, std::function<void()> undo) {
    if (seq != 0) changes.push_back({seq, std::move(undo)});
  }

  // ---- changes by commands; seq: what their reply waits for
  void Set(const KeyId& id, ModelObject object, Seq seq) {
    const auto before = Find(id);
    const Version version = object.version;
    objects[id] = std::move(object);
    Note(seq, [this, id, before, version] {
      const auto it = objects.find(id);
      if (it != objects.end() && it->second.version == version) objects.erase(it);
      if (before.has_value()) objects[id] = *before;
    });
  }
  void Erase(const KeyId& id, Seq seq) {
    const auto before = Find(id);
    objects.erase(id);
    if (before.has_value()) Note(seq, [this, id, before] { objects[id] = *before; });
  }
  void Flush(uint32_t name_space, Seq seq) {
    std::map<KeyId, ModelObject> before;
    for (const auto& [id, object] : objects) {
      if (id.name_space == name_space) before.emplace(id, object);
    }
    for (const auto& [id, object] : before) objects.erase(id);
    Note(seq, [this, before] {
      for (const auto& [id, object] : before) objects[id] = object;
    });
  }
  void Change_(const KeyId& id, int64_t expire_at_ms, bool hard_pin, Seq seq) {
    ModelObject& object = objects.at(id);
    const ModelObject before = object;
    object.expire_at_ms = expire_at_ms;
    object.hard_pin = hard_pin;
    Note(seq, [this, id, before] {
      const auto it = objects.find(id);
      if (it == objects.end() || it->second.version != before.version) return;
      it->second.expire_at_ms = before.expire_at_ms;
      it->second.hard_pin = before.hard_pin;
    });
  }

  std::optional<ModelObject> Find(const KeyId& id) const {
    const auto it = objects.find(id);
    if (it == objects.end()) return std::nullopt;
    return it->second;
  }
  int64_t LeaseOf(Version version) const {
    const auto it = leased_until.find(version);
    return it == leased_until.end() ? 0 : it->second;
  }
};

// ---- bytes

inline uint8_t ByteOf(Version version, uint64_t at) {
  uint64_t x = version.value * 0x9E3779B97F4A7C15u + at / 16;
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9u;
  return static_cast<uint8_t>((x >> 32) + at);
}

// One store process: its memory, and the puts that it lets write.
class SimStore {
 public:
  enum class Outcome { kOk, kUnreachable, kOldEpoch, kStalePut, kInUse };

  StoreInfo info;
  StoreSlot slot = 0;
  std::vector<SegmentJoin> segments;
  std::map<uint32_t, std::vector<uint8_t>> memory;  // by segment id, of the current epoch
  Version floor;
  std::set<Version> closed;                          // not below the floor
  std::vector<Version> close_orders;                 // not carried out yet
  std::vector<Version> close_reports;                // carried out, not reported yet
  std::vector<std::pair<SegmentRef, Extent>> views;  // ranges that somebody still looks at
  std::vector<WorkItem> items;
  bool up = false;      // the process lives and its network works
  bool hung = false;    // does not carry out closings
  bool joined = false;  // has a connection
  bool joining_failed = false;

  std::vector<uint8_t>* Memory(SegmentRef place) {
    for (const SegmentJoin& s : segments) {
      if (s.id == place.segment) return s.epoch == place.epoch ? &memory[s.id] : nullptr;
    }
    return nullptr;
  }

  Outcome MayWrite(Incarnation incarnation, Version put, const ReplicaInfo& replica) {
    if (!up || incarnation != info.incarnation) return Outcome::kUnreachable;
    if (Memory(replica.place) == nullptr) return Outcome::kOldEpoch;
    if (put < floor || closed.contains(put)) return Outcome::kStalePut;
    for (const auto& [place, view] : views) {
      if (place != replica.place) continue;
      for (const Extent& e : replica.extents) {
        if (e.offset < view.offset + view.length && view.offset < e.offset + e.length) return Outcome::kInUse;
      }
    }
    return Outcome::kOk;
  }

  // Bytes of the version, or junk from a writer that knows no better.
  Outcome Write(Incarnation incarnation, Version put, const ReplicaInfo& replica, bool junk) {
    const Outcome outcome = MayWrite(incarnation, put, replica);
    if (outcome != Outcome::kOk) return outcome;
    std::vector<uint8_t>& bytes = *Memory(replica.place);
    uint64_t at = 0;
    for (const Extent& e : replica.extents) {
      for (uint64_t i = 0; i < e.length; ++i, ++at) bytes[e.offset + i] = junk ? 0xEE : ByteOf(put, at);
    }
    return Outcome::kOk;
  }

  // True: right bytes. False: others. None: refused, or not to be reached.
  std::optional<bool> Read(Incarnation incarnation, Version version, const ReplicaInfo& replica) {
    if (!up || incarnation != info.incarnation) return std::nullopt;
    const std::vector<uint8_t>* bytes = Memory(replica.place);
    if (bytes == nullptr) return std::nullopt;
    uint64_t at = 0;
    for (const Extent& e : replica.extents) {
      for (uint64_t i = 0; i < e.length; ++i, ++at) {
        if ((*bytes)[e.offset + i] != ByteOf(version, at)) return false;
      }
    }
    return true;
  }

  void RaiseFloor(Version to) {
    if (to <= floor) return;
    floor = to;
    std::erase_if(closed, [&](Version v) { return v < floor; });
  }
  void Close(Version put) {
    if (put >= floor) closed.insert(put);
    close_reports.push_back(put);
  }
};

}  // namespace tiercel::core::sim
