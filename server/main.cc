// tiercel-server: one binary in the roles of master and store.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "base/log.h"
#include "server/assembly.h"
#include "server/config/settings.h"
#include "server/net/users.h"
#include "server/signals.h"

namespace tiercel::server {
namespace {

constexpr int64_t kReadyMs = 3'000;  // a store whose master is not there yet starts all the same
constexpr int64_t kStopGraceMs = 5'000;

int Refuse(const Error& error) {
  // The general word tells people nothing.
  const bool general = error.word() == InfoOf(ErrorCode::kInternal).word;
  fmt::print(stderr, "tiercel-server: {}\n", general ? error.message() : error.ToString());
  return 1;
}

Result<config::Environment> ThisMachine() {
  TIERCEL_ASSIGN(auto environment, config::Environment::OfThisMachine());
  environment.check_user = [](std::span<const std::string> words) -> Status {
    auto spec = net::ParseUserDirective(words);
    return spec.ok() ? Ok() : Status(spec.error());
  };
  return environment;
}

int Run(const config::Settings& settings) {
  // Not before: reading the configuration may take as long as a pipe is silent, and Ctrl-C ends that.
  BlockSignals();
  if (auto opened = OpenLog(settings.log_file.empty() ? "" : settings.Path(settings.log_file), settings.log_level);
      !opened.ok()) {
    return Refuse(opened.error());
  }
  auto assembly = Assembly::Build(settings);
  if (!assembly.ok()) return Refuse(assembly.error());
  if (!(*assembly)->WaitReady(kReadyMs)) {
    const std::string place =
        settings.master_role ? "in this process" : fmt::format("at {}:{}", settings.master_host, settings.master_port);
    Log(LogLevel::kWarning, "the store does not serve yet; it goes on trying to join its master {}", place);
  }
  fmt::print("{}", (*assembly)->Banner());
  std::fflush(stdout);
  while (WaitForEvent() == ProcessEvent::kReopenLog) {
    auto reopened = OpenLog(settings.log_file.empty() ? "" : settings.Path(settings.log_file), settings.log_level);
    if (!reopened.ok()) fmt::print(stderr, "tiercel-server: {}\n", reopened.error().ToString());
  }
  Log(LogLevel::kNotice, "stopping: no new puts, at most {} s for what is under way", kStopGraceMs / 1000);
  (*assembly)->Stop(kStopGraceMs);
  assembly->reset();
  Log(LogLevel::kNotice, "stopped");
  FlushLog();
  return 0;
}

int Main(const std::vector<std::string>& arguments) {
  auto invocation = config::ParseInvocation(arguments);
  if (!invocation.ok()) return Refuse(invocation.error());
  auto environment = ThisMachine();
  if (!environment.ok()) return Refuse(environment.error());
  switch (invocation->action) {
    case config::Invocation::Action::kHelp: fmt::print("{}", config::HelpText()); return 0;
    case config::Invocation::Action::kVersion: fmt::print("tiercel-server {}\n", TIERCEL_VERSION); return 0;
    case config::Invocation::Action::kPrintConf: fmt::print("{}", config::ConfText()); return 0;
    case config::Invocation::Action::kCheck: {
      auto checked = config::CheckFile(invocation->file, *environment);
      if (!checked.ok()) return Refuse(checked.error());
      fmt::print("{}: ok\n", invocation->file);
      return 0;
    }
    case config::Invocation::Action::kRun: break;
  }
  auto settings = config::LoadSettings(arguments, *environment);
  if (!settings.ok()) return Refuse(settings.error());
  return Run(*settings);
}

}  // namespace
}  // namespace tiercel::server

int main(int argc, char** argv) {
  // What is refused this early (no memory for a thread's stack, no descriptor for an event) has no other way to be
  // said.
  try {
    return tiercel::server::Main({argv + 1, argv + argc});
  } catch (const std::exception& failure) {
    fmt::print(stderr, "tiercel-server: cannot start: {}\n", failure.what());
    return 1;
  }
}
