// One history of the simulation: a master, stores, clients, readers, a committer and two clocks, all driven by one
// seed. Every step does one thing to the master and to the model, and then compares all that can be compared.
#pragma once

#include <array>
#include <cstdio>
#include <deque>
#include <memory>

#include "base/random.h"
#include "tests/core/model.h"

namespace tiercel::core::sim {

class World {
 public:
  World(uint64_t seed, bool tell);
  void Step();
  // Everything ends: puts, reads, keys, leases. Then all space of serving stores must be free.
  void Drain();
  const Counters& counters() const { return master_->counters(); }  // since the last restart
  uint64_t restarts() const { return restarts_; }
  uint64_t restored() const { return restored_; }  // objects that came back with a restarted master
  uint64_t reincarnations() const { return reincarnations_; }
  uint64_t refused_writes(SimStore::Outcome why) const { return refused_.at(static_cast<size_t>(why)); }

 private:
  struct Client {
    Version put;
    KeyId key;
    uint64_t size = 0;
    Caller caller;
    PutOptions how;
    std::vector<ReplicaInfo> replicas;
    std::vector<Incarnation> stores;  // as its grants name them
    std::vector<Incarnation> homes;   // as those stores are called now
    std::vector<std::optional<SimStore::Outcome>> written;
    int64_t last_sign_ms = 0;
    bool orphan = false;
    bool over = false;  // ended, voided or revoked: a late writer
  };
  struct Reader {
    KeyId key;
    ObjectInfo info;
    std::vector<Incarnation> stores;
    int64_t until_ms = 0;
    bool in_process = false;
  };

  Times now() const { return clock_.Now(); }
  uint64_t Draw(uint64_t bound) { return random_.Below(bound); }
  bool Chance(uint64_t percent) { return Draw(100) < percent; }
  KeyId AnyKey();
  // With the hint of the last Prefetch of this key, however long ago: the core must not believe it.
  KeyRef Ref(const KeyId& id) const {
    KeyRef key = MakeKey(id.name_space, id.key);
    if (const auto hint = hints_.find(id); hint != hints_.end()) key.hint = hint->second;
    return key;
  }
  void Begin() { master_->BeginCommand(); }
  Seq Wait() { return master_->wait(); }

  // ---- what can happen
  void StartPut();
  void WritePut();
  void LateWrite();
  void EndPut();
  void RenewOrRevoke();
  void CloseConnection();
  void LookUp();
  void ReadBytes();
  void BeginOrEndRead();
  void DeleteKey();
  void ChangeTtl();
  void ChangePin();
  void FlushSpace();
  void ScanSome();
  void PassTime();
  void Tick();
  void StoreWork();
  void StoreFault();
  void Leave();
  void Views();
  void Report();
  void Commit();
  void RestartMaster();

  // ---- the index, world_restart.cc
  void Write(const Record& record);
  void Restore();
  void ModelRestart();
  void Rename(Incarnation before, const SimStore& store);
  ModelReplica Renamed(ModelReplica replica) const;
  void RenameAll();

  // ---- stores
  void JoinStore(SimStore* store);
  void DropWork(SimStore* store, std::vector<WorkItem> items);
  void Restart(SimStore* store, bool keep_memory);
  SimStore* StoreOf(Incarnation incarnation);

  // ---- comparing
  bool ModelReadable(const ModelObject& object) const;
  bool ReplicaReadable(const ModelReplica& replica) const;
  void RefreshSegments();
  void TakeEvents();
  void ForgetEndedPuts();
  void ForgetGivenUp();
  void Compare();
  void CompareKey(const KeyId& id);
  void CheckReader(const Reader& reader);
  void Fail(const std::string& what) const;
  // What happened, for whoever looks into one failed history.
  template <typename... Args>
  void Tell(const char* format, Args... args) const {
    if (!tell_) return;
    std::printf("%d @%lld ", step_, static_cast<long long>(now().boot_ms));
    std::printf(format, args...);
    std::printf("\n");
  }

  const bool tell_;
  ManualClock clock_;
  Random random_;
  Options options_;
  std::unique_ptr<Master> master_;
  Model model_;
  std::vector<KeyId> keys_;
  std::map<KeyId, uint32_t> hints_;
  std::deque<SimStore> stores_;
  std::vector<bool> backed_;  // of each: its memory may survive its process
  std::vector<Client> clients_;
  std::vector<Reader> readers_;
  std::set<std::pair<Version, ModelReplica>> bad_;        // bytes that went bad
  std::set<std::pair<Version, ModelReplica>> found_bad_;  // and of which their store has said so
  std::map<KeyId, int64_t> dropped_early_;  // replicas that the model dropped and the core has not told of
  std::set<ModelReplica> segments_;         // that the master serves now, of stores that can be read
  std::set<ModelReplica> serving_;          // that the master serves now
  Version newest_put_;
  uint64_t next_incarnation_ = 1000;
  uint64_t next_connection_ = 2;
  uint32_t next_epoch_ = 1;
  // committer
  Master::Seeds seeds_;
  std::map<uint64_t, Record> index_puts_;
  std::map<StoreSlot, Record> index_stores_;
  std::map<std::pair<StoreSlot, uint32_t>, Record> index_segments_;
  std::map<uint32_t, uint64_t> index_floors_;
  std::vector<std::pair<KeyId, ModelObject>> removed_;  // by the core itself; the index may not know yet
  struct SameStorage {
    Incarnation before, after;
    SegmentRef place;
  };
  std::vector<SameStorage> renames_;  // in the order in which they happened
  uint64_t restarts_ = 0, restored_ = 0, reincarnations_ = 0;
  Seq taken_ = 0;
  std::vector<Record> batch_;
  int failures_left_ = 0;
  // a scan under way
  uint64_t cursor_ = 0;
  uint32_t scan_space_ = 0;
  bool scanning_ = false;
  std::set<std::string> must_meet_, met_;
  int step_ = 0;
  std::array<uint64_t, 5> refused_{};
};

}  // namespace tiercel::core::sim
