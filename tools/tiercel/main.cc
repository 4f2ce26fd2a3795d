// tiercel: puts, gets and looks at values from the command line.
#include <CLI/CLI.hpp>
#include <string>

#include "base/units.h"
#include "tools/tiercel/commands.h"
#include "tools/tiercel/interrupt.h"

namespace tiercel::cli {
namespace {

std::string CheckTime(const std::string& text) {
  auto ms = ParseMillis(text);
  return ms && *ms > 0 ? "" : "a time such as 500ms, 10s or 5m is needed, not " + text;
}

TransportChoice TransportNamed(const std::string& name) {
  if (name == "tcp") return TransportChoice::kTcp;
  if (name == "shm") return TransportChoice::kShm;
  return TransportChoice::kAuto;
}

void AddSettings(CLI::App* app, Settings* settings) {
  ClientOptions& client = settings->client;
  app->add_option("-m,--master", client.master, "HOST:PORT, [V6]:PORT or unix:PATH of the master")
      ->envname("TIERCEL_MASTER")
      ->capture_default_str();
  app->add_option("-u,--user", client.user, "log in as this user")->envname("TIERCEL_USER");
  app->add_option("--password", client.password,
                  "log in with this password (the environment or a file hides it from other users of this machine)")
      ->envname("TIERCEL_PASSWORD");
  app->add_option("--password-file", settings->password_file, "read the password from the first line of this file");
  app->add_option("-n,--namespace", client.name_space, "number of the namespace (SELECT of Redis)")
      ->capture_default_str();
  app->add_option("--location", client.location, "name of the host that this runs on, as stores name theirs");
  app->add_option_function<std::string>(
         "-t,--transport", [&client](const std::string& name) { client.transport = TransportNamed(name); },
         "how bytes move; auto: shared memory on the store's host, else TCP")
      ->check(CLI::IsMember({"auto", "tcp", "shm"}))
      ->type_name("NAME");
  app->add_option("--timeout", settings->timeout, "longest time that one operation may take: 500ms, 10s, 5m")
      ->type_name("TIME")
      ->check(CheckTime)
      ->capture_default_str();
  app->add_flag("--json", settings->json, "print JSON, one value a line");
  app->add_flag("-q,--quiet", settings->quiet, "no progress bar and no summary");
}

int Main(int argc, char** argv) {
  WatchSignals();
  Settings settings;
  Chosen chosen;
  CLI::App app("Puts, gets and looks at values of a Tiercel cache.", "tiercel");
  app.footer(kExitCodesHelp);
  app.set_version_flag("--version", "tiercel " TIERCEL_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  AddSettings(&app, &settings);
  AddPut(&app, &chosen);
  AddGet(&app, &chosen);
  AddCat(&app, &chosen);
  AddList(&app, &chosen);
  AddStat(&app, &chosen);
  AddRemove(&app, &chosen);
  AddExists(&app, &chosen);
  AddNodes(&app, &chosen);
  AddSegments(&app, &chosen);
  AddPing(&app, &chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  Session session(settings);
  ExitCode code = session.Open();
  if (code == kDone) code = chosen(session);
  return Interrupted() ? kInterrupted : code;
}

}  // namespace
}  // namespace tiercel::cli

int main(int argc, char** argv) { return tiercel::cli::Main(argc, argv); }
