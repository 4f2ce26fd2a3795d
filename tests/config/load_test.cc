// From files and command lines to settings.
#include "tests/config/config_fixture.h"

namespace tiercel::config {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using LoadTest = ConfigFixture;
constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST_F(LoadTest, WithNothingGivenAMasterAndAStoreRunOnThisHost) {
  const Settings settings = MustLoad({});
  EXPECT_TRUE(settings.master_role);
  EXPECT_TRUE(settings.store_role);
  EXPECT_EQ(settings.port, 7379);
  EXPECT_EQ(settings.data_port, 7380);
  EXPECT_EQ(settings.admin_port, 7381);
  EXPECT_THAT(settings.binds, ElementsAre("127.0.0.1", "-::1"));
  EXPECT_EQ(settings.data_binds, settings.binds);
  EXPECT_EQ(settings.store_name, "host-a");
  EXPECT_EQ(settings.location_host, "host-a");
  EXPECT_THAT(settings.dram_bytes, ElementsAre(16 * kGiB));
  EXPECT_EQ(settings.view_max_bytes, 2 * kGiB);
  EXPECT_EQ(settings.core.metadata_max_bytes, 8 * kGiB);
  EXPECT_THAT(settings.transports, ElementsAre(Transport::kShm, Transport::kTcp));
  EXPECT_EQ(settings.core.lease_ttl_ms, 10'000);
}

// P-10: what the server prints can be pasted back.
TEST_F(LoadTest, AddressesInBrackets) {
  Settings settings = MustLoad({"--bind", "[::1]", "-[::]", "10.0.0.1", "--data-advertise", "[fd00::1]:7711"});
  EXPECT_THAT(settings.binds, ElementsAre("::1", "-::", "10.0.0.1"));
  EXPECT_EQ(settings.data_advertise_host, "fd00::1");
  EXPECT_EQ(settings.data_advertise_port, 7711);
  const struct {
    const char* text;
    const char* host;
    uint16_t port;
  } given[] = {{"fd00::1", "fd00::1", 0},
               {"[fd00::1]", "fd00::1", 0},
               {"store.example:99", "store.example", 99},
               {"10.0.0.1:7380", "10.0.0.1", 7380},
               {"10.0.0.1", "10.0.0.1", 0}};
  for (const auto& one : given) {
    settings = MustLoad({"--data-advertise", one.text});
    EXPECT_EQ(settings.data_advertise_host, one.host) << one.text;
    EXPECT_EQ(settings.data_advertise_port, one.port) << one.text;
  }
  settings = MustLoad({"--roles", "store", "--master", "[::1]:7379"});
  EXPECT_EQ(settings.master_host, "::1");
  EXPECT_EQ(settings.master_port, 7379);
  for (const char* bad : {"[::1]x", "[::1]:0", "host:", "host:70000", "[]:1", ":1"}) {
    EXPECT_THAT(Refusal({"--data-advertise", bad}), HasSubstr("data-advertise")) << bad;
  }
  EXPECT_THAT(Refusal({"--roles", "store", "--master", "host"}), HasSubstr("master"));
}

TEST_F(LoadTest, DramDefaultsToWhatABusyMachineHas) {
  environment_.memory = {.total_bytes = 64 * kGiB, .available_bytes = 5 * kGiB + 3 * kMiB};
  EXPECT_THAT(MustLoad({}).dram_bytes, ElementsAre((5 * kGiB / 2 + 3 * kMiB / 2) / (2 * kMiB) * (2 * kMiB)));
  environment_.memory = {.total_bytes = kMiB, .available_bytes = 0};
  EXPECT_THAT(MustLoad({}).dram_bytes, ElementsAre(2 * kMiB));
  EXPECT_TRUE(MustLoad({"--roles", "master"}).dram_bytes.empty());
}

TEST_F(LoadTest, ReadsAFile) {
  const std::string file = Write("tiercel.conf",
                                 "# comment\n"
                                 "\n"
                                 "  \t# another\r\n"
                                 "PORT 0\r\n"
                                 "bind 0.0.0.0 \"::\"\n"
                                 "dram 4gb\n"
                                 "dram 64mb 128mb\n"
                                 "lease-ttl 2500ms\n"
                                 "eviction-ratio 0.1\n"
                                 "exists-grants-lease NO\n"
                                 "unixsocketperm 770\n"
                                 "location rack=r1 host=h7\n"
                                 "logfile '/var/log/my tiercel.log'\n"
                                 "timeout 300");
  const Settings settings = MustLoad({file});
  EXPECT_EQ(settings.port, 0);
  EXPECT_THAT(settings.binds, ElementsAre("0.0.0.0", "::"));
  EXPECT_THAT(settings.dram_bytes, ElementsAre(4 * kGiB, 64 * kMiB, 128 * kMiB));
  EXPECT_EQ(settings.core.lease_ttl_ms, 2500);
  EXPECT_EQ(settings.core.eviction_ratio, 0.1);
  EXPECT_FALSE(settings.core.exists_grants_lease);
  EXPECT_EQ(settings.unix_socket_permissions, 0770u);
  EXPECT_EQ(settings.location_host, "h7");
  EXPECT_EQ(settings.log_file, "/var/log/my tiercel.log");
  EXPECT_EQ(settings.timeout_s, 300);
  EXPECT_EQ(settings.file, file);
}

TEST_F(LoadTest, TheCommandLineWins) {
  const std::string file = Write("tiercel.conf", "port 1000\ndram 1gb\ndram 2gb\nmaxclients 5\n");
  const Settings settings =
      MustLoad({file, "--port", "2000", "--dram", "64mb", "--dram", "128mb", "--bind", "127.0.0.1", "::1"});
  EXPECT_EQ(settings.port, 2000);
  EXPECT_THAT(settings.dram_bytes, ElementsAre(64 * kMiB, 128 * kMiB));
  EXPECT_EQ(settings.max_clients, 5u);
  EXPECT_THAT(settings.binds, ElementsAre("127.0.0.1", "::1"));
  EXPECT_THAT(MustLoad({file, "--maxmemory", "2mb"}).dram_bytes, ElementsAre(2 * kMiB));
  EXPECT_EQ(MustLoad({file, "--port", "1", "--port", "2"}).port, 2);
}

TEST_F(LoadTest, AStoreNeedsItsMaster) {
  const Settings store = MustLoad({"--roles", "store", "--master", "master.example", "7379", "--masterauth", "s3cret"});
  EXPECT_FALSE(store.master_role);
  EXPECT_EQ(store.master_host, "master.example");
  EXPECT_EQ(store.master_port, 7379);
  EXPECT_EQ(store.master_user, "default");
  EXPECT_THAT(Refusal({"--roles", "store"}), AllOf(HasSubstr("roles"), HasSubstr("master HOST PORT")));
  EXPECT_THAT(Refusal({"--master", "a", "1"}), HasSubstr("names another master"));
}

TEST_F(LoadTest, UsersInOneArgumentOrSeveral) {
  const Settings settings =
      MustLoad({"--user", "stores on >pass +@store", "--user", "bob", "on", ">with blank", "--requirepass", "x y"});
  EXPECT_THAT(settings.users,
              ElementsAre(ElementsAre("stores", "on", ">pass", "+@store"), ElementsAre("bob", "on", ">with blank")));
  EXPECT_EQ(settings.requirepass, "x y");
  EXPECT_THAT(Refusal({"--user", "bob on >a", "--user", "bob on >b"}), HasSubstr("defined twice"));
  EXPECT_THAT(Refusal({"--requirepass", "a", "--user", "default on >b"}), HasSubstr("requirepass and user default"));
}

TEST_F(LoadTest, UsersAreCheckedByTheLayerThatKnowsThem) {
  environment_.check_user = [](std::span<const std::string> words) -> Status {
    if (words.back() == "+get") return Error(ErrorCode::kInvalid, "restrictions of commands are not known");
    return Ok();
  };
  const std::string file = Write("tiercel.conf", "port 1\nuser bob on >hunter2 +get\n");
  EXPECT_THAT(Refusal({file}),
              AllOf(HasSubstr(file + ":2: user (hidden): restrictions of commands"), Not(HasSubstr("hunter2"))));
}

TEST_F(LoadTest, SecretsAreNotInErrors) {
  const std::string secret = "hunter2";
  EXPECT_THAT(Refusal({"--requirepass", secret, secret}), Not(HasSubstr(secret)));
  EXPECT_THAT(Refusal({"--masterauth", secret + "\x01"}), Not(HasSubstr(secret)));
  EXPECT_THAT(Refusal({"--user", secret}), Not(HasSubstr(secret)));
}

struct BadLine {
  const char* line;
  const char* why;
};

TEST_F(LoadTest, BadValuesNameFileLineValueAndWhatIsAllowed) {
  const BadLine kCases[] = {
      {"port abc", "port abc: argument couldn't be parsed into an integer; allowed: port NUMBER: 0 to 65535"},
      {"port 65536", "port 65536: argument must be between 0 and 65535 inclusive"},
      {"port -1", "between 0 and 65535"},
      {"port 08", "parsed into an integer"},
      {"port", "wrong number of arguments: 0 given"},
      {"port 1 2", "port 1 2: wrong number of arguments: 2 given"},
      {"dram 10", "between 1mb and 15tb"},
      {"dram 4 gb", "between 1mb and 15tb"},
      {"dram lots", "dram lots: argument must be a memory value; allowed: dram SIZE..."},
      {"dram 16777216tb", "memory value"},
      {"metadata-max 9223372036854775808", "between 16mb and 64tb"},
      {"lease-ttl 10x", "lease-ttl 10x: argument must be a time, such as 500ms"},
      {"lease-ttl 0", "between 1ms and 24h"},
      {"eviction-ratio 1.5", "argument must be a ratio from 0 to 1"},
      {"eviction-ratio 0.7", "between 0 and 0.5"},
      {"exists-grants-lease maybe", "argument must be 'yes' or 'no'; allowed: exists-grants-lease yes|no"},
      {"loglevel loud", "one of the following: debug, verbose, notice, warning, error, nothing"},
      {"eviction-policy chain-slru", "one of the following: lru"},
      {"index maybe", "must be 'yes' or 'no'"},
      {"transports rdma", "one of the following: shm, tcp"},
      {"transports tcp tcp", "named twice"},
      {"roles worker", "one of the following: master, store"},
      {"roles store store", "named twice"},
      {"master host", "wrong number of arguments: 1 given"},
      {"master host 0", "port must be a number from 1 to 65535"},
      {"master host 70000", "port must be a number from 1 to 65535"},
      {"unixsocketperm 888", "octal"},
      {"unixsocketperm 7777", "between 0 and 777"},
      {"store-name \"a b\"", "letters, digits"},
      {"store-name \"\"", "letters, digits"},
      {"location rack=1", "host=NAME"},
      {"location host=", "KEY=VALUE"},
      {"bind \"\"", "addresses or host names"},
      {"save \"60 1000\"", "one of the following: \"\""},
      {"dir \"a\\nb\"", "control characters"},
  };
  for (const BadLine& bad : kCases) {
    const std::string file = Write("tiercel.conf", std::string("# first line\n\n") + bad.line + "\n");
    EXPECT_THAT(Refusal({file}), AllOf(StartsWith(file + ":3: "), HasSubstr(bad.why), HasSubstr("; allowed: ")))
        << bad.line;
    EXPECT_FALSE(CheckFile(file, environment_).ok());
  }
  EXPECT_THAT(Refusal({"--port", "abc"}), StartsWith("command line: port abc: "));
}

TEST_F(LoadTest, UnknownDirectivesAreNamed) {
  const std::string file = Write("tiercel.conf", "port 1\nlease-tll 10s\n");
  EXPECT_THAT(Refusal({file}),
              AllOf(StartsWith(file + ":2: unknown directive lease-tll"), HasSubstr("is lease-ttl meant?")));
  EXPECT_THAT(Refusal({"--completely-different", "1"}),
              AllOf(HasSubstr("command line: unknown directive completely-different"), Not(HasSubstr("meant"))));
  EXPECT_THAT(Refusal({"--" + std::string(100'000, 'x')}), HasSubstr("unknown directive"));
}

TEST_F(LoadTest, BadFilesAreNamed) {
  EXPECT_THAT(Refusal({Path("missing.conf")}), HasSubstr("missing.conf: No such file"));
  EXPECT_THAT(Refusal({Write("a.conf", "port 1\nlogfile \"x\n")}), HasSubstr("a.conf:2: unbalanced quotes"));
  EXPECT_THAT(Refusal({Write("b.conf", std::string("\0port", 5))}), HasSubstr("b.conf:1: "));
  EXPECT_THAT(Refusal({Write("c.conf", std::string((1 << 20) + 1, '\n'))}), HasSubstr("larger than 1048576 bytes"));
  EXPECT_THAT(Refusal({dir_.string()}), HasSubstr("Is a directory"));
  EXPECT_THAT(Refusal({"a.conf", "b.conf"}), HasSubstr("one FILE"));
  EXPECT_THAT(Refusal({"--"}), HasSubstr("without a directive"));
}

TEST_F(LoadTest, IncludeReadsOtherFilesFromTheSameDirectory) {
  Write("conf.d/10.conf", "port 10\nmaxclients 10\n");
  Write("conf.d/20.conf", "port 20\n");
  const std::string file = Write("tiercel.conf", "port 1\ninclude conf.d/*.conf none/*.conf\nmaxclients 30\n");
  const Settings settings = MustLoad({file});
  EXPECT_EQ(settings.port, 20);
  EXPECT_EQ(settings.max_clients, 30u);
  const std::string bad = Write("conf.d/30.conf", "\nport x\n");
  EXPECT_THAT(Refusal({file}), StartsWith(bad + ":2: port x"));
  EXPECT_THAT(Refusal({Write("b.conf", "include missing.conf\n")}),
              AllOf(HasSubstr("b.conf:1: "), HasSubstr("missing.conf")));
  EXPECT_THAT(Refusal({Write("c.conf", "include\n")}), HasSubstr("c.conf:1: include needs a file"));
  EXPECT_THAT(Refusal({Write("loop.conf", "include loop.conf\n")}), HasSubstr("nested more than 16 deep"));
}

TEST_F(LoadTest, DirectivesThatDoNotGoTogetherAreBothNamed) {
  // O-23: a default above the longest soft pin.
  EXPECT_EQ(Refusal({"--soft-pin-default", "25h"}), "command line: soft-pin-default 25h is above soft-pin-max 24h");
  EXPECT_THAT(Refusal({"--lease-ttl", "2m"}), HasSubstr("lease-ttl 2m is above lease-max 1m"));
  EXPECT_THAT(Refusal({"--lease-max-ratio", "0.85"}),
              HasSubstr("lease-max-ratio 0.85 is not below the low watermark 0.85, which is "
                        "eviction-high-watermark-ratio 0.9 less eviction-ratio 0.05"));
  EXPECT_THAT(Refusal({"--hard-pin-max-ratio", "0.9"}), HasSubstr("hard-pin-max-ratio 0.9 is not below"));
  EXPECT_THAT(Refusal({"--put-start-discard-timeout", "20m"}), HasSubstr("put-start-release-timeout 10m"));
  EXPECT_THAT(Refusal({"--ping-interval", "4s"}), HasSubstr("ping-interval 4s is above a third of store-timeout 10s"));
  EXPECT_THAT(Refusal({"--store-forget", "9s"}), HasSubstr("store-timeout 10s is above store-forget 9s"));
  EXPECT_THAT(Refusal({"--dir", "/" + std::string(120, 'd')}),
              AllOf(HasSubstr("data-socket data.sock"), HasSubstr("107")));
  EXPECT_THAT(Refusal({"--unixsocket", "data.sock"}), HasSubstr("same path"));
}

TEST_F(LoadTest, RelativePathsLieInDir) {
  const Settings settings = MustLoad({"--dir", "/srv/tiercel", "--unixsocket", "/run/t.sock"});
  EXPECT_EQ(settings.Path(settings.data_socket), "/srv/tiercel/data.sock");
  EXPECT_EQ(settings.Path(settings.unix_socket), "/run/t.sock");
  EXPECT_EQ(settings.Path(""), "");
  EXPECT_EQ(MustLoad({}).Path("data.sock"), "data.sock");
}

TEST_F(LoadTest, Invocations) {
  using Action = Invocation::Action;
  const auto parse = [](std::vector<std::string> arguments) { return ParseInvocation(arguments); };
  EXPECT_EQ(parse({})->action, Action::kRun);
  EXPECT_EQ(parse({"x.conf", "--port", "0"})->action, Action::kRun);
  EXPECT_EQ(parse({"--port", "0"})->action, Action::kRun);
  EXPECT_EQ(parse({"--help"})->action, Action::kHelp);
  EXPECT_EQ(parse({"-v"})->action, Action::kVersion);
  EXPECT_EQ(parse({"--print-conf"})->action, Action::kPrintConf);
  EXPECT_EQ(parse({"--check", "x.conf"})->action, Action::kCheck);
  EXPECT_EQ(parse({"--check", "x.conf"})->file, "x.conf");
  EXPECT_FALSE(parse({"--check"}).ok());
  EXPECT_FALSE(parse({"--help", "me"}).ok());
}

TEST_F(LoadTest, ThisMachineHasDefaultsToo) {
  const Result<Settings> settings = LoadSettings(std::vector<std::string>{});
  ASSERT_TRUE(settings.ok());
  EXPECT_FALSE(settings->store_name.empty());
  EXPECT_GE(settings->dram_bytes.at(0), 2 * kMiB);
}

}  // namespace
}  // namespace tiercel::config
