#include "server/signals.h"

#include <unistd.h>

#include <csignal>
#include <initializer_list>

namespace tiercel::server {
namespace {

sigset_t HandledSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  return set;
}

}  // namespace

void BlockSignals() {
  const sigset_t set = HandledSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes is an error of the write
}

ProcessEvent WaitForEvent() {
  const sigset_t set = HandledSignals();
  int signal = 0;
  while (sigwait(&set, &signal) != 0) {
  }
  return signal == SIGHUP ? ProcessEvent::kReopenLog : ProcessEvent::kStop;
}

bool StopRequested() {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1;
}

void RequestStop() { kill(getpid(), SIGTERM); }

}  // namespace tiercel::server
