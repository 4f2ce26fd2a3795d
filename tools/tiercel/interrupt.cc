#include "tools/tiercel/interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

namespace tiercel::cli {
namespace {

// One process, one terminal: the state of its interruption is the process's.
std::atomic<bool> interrupted{false};
std::mutex mutex;
std::weak_ptr<Client> watched;  // guarded by mutex

sigset_t Signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

void Watch() {
  const sigset_t set = Signals();
  for (int signal = 0; sigwait(&set, &signal) == 0;) {
    if (interrupted.exchange(true)) _exit(128 + signal);
    std::shared_ptr<Client> client;
    {
      std::lock_guard lock(mutex);
      client = watched.lock();
    }
    if (client != nullptr) client->Close();
  }
}

}  // namespace

void WatchSignals() {
  const sigset_t set = Signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::thread(Watch).detach();  // lives as long as the process
}

void CloseWhenInterrupted(std::weak_ptr<Client> client) {
  std::shared_ptr<Client> now;
  {
    std::lock_guard lock(mutex);
    watched = std::move(client);
    if (interrupted) now = watched.lock();
  }
  if (now != nullptr) now->Close();
}

bool Interrupted() { return interrupted; }

}  // namespace tiercel::cli
