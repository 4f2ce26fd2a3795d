// Mixed load whose history is kept: writers with keys of their own, through the C++ client and through RESP.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "tests/crash/deployment.h"
#include "tests/crash/ledger.h"

namespace tiercel::test {

// What all writers of a run share.
class Journal {
 public:
  // Any version that was ever told to anyone.
  uint64_t highest() const { return highest_.load(); }
  void Told(Version version);
  void Acknowledged();
  // Until so many commands more have been acknowledged; false when the hang guard is over.
  bool AwaitMore(uint64_t commands);
  uint64_t acknowledged() const;
  void Fault(std::string what);  // what must never be
  std::vector<std::string> faults() const;

 private:
  std::atomic<uint64_t> highest_{0};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t acknowledged_ = 0;
  std::vector<std::string> faults_;
};

class Writer {
 public:
  // `name_space` 0 is shared by all writers but one; the others' is flushed now and then.
  Writer(Deployment* system, Journal* journal, uint64_t seed, int index, bool flushes);
  ~Writer();
  void Run();  // a thread of its own
  void Stop();
  // With the system whole and the writer stopped: reads everything back.
  void CheckAll();

 private:
  struct Reply {
    Ledger::Outcome outcome = Ledger::Outcome::kUnknown;
    int64_t integer = -1;
  };
  void Loop();
  void OneCommand();
  void PutByClient(const std::string& key);
  void Set(const std::string& key);
  void Delete(const std::string& key);
  void ChangeEnd(const std::string& key);
  void ChangePin(const std::string& key);
  void Read(const std::string& key);
  void Flush();
  RedisReply Call(const std::vector<std::string_view>& words);
  void Note(Ledger::Outcome outcome) {
    if (outcome == Ledger::Outcome::kDone) journal_->Acknowledged();
  }
  Held NewValue();
  Seen Look(const std::string& key);

  Deployment* const system_;
  Journal* const journal_;
  const int index_;
  const bool flushes_;
  Random random_;
  Ledger ledger_;
  uint64_t next_number_;
  std::unique_ptr<Redis> redis_;
  std::unique_ptr<Client> client_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

// All writers of one system.
class Load {
 public:
  Load(Deployment* system, uint64_t seed, int writers = 4);
  void Run();
  void Stop();
  void CheckAll();
  Journal& journal() { return journal_; }

 private:
  Journal journal_;
  std::vector<std::unique_ptr<Writer>> writers_;
};

}  // namespace tiercel::test
