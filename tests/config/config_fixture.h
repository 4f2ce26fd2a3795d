// A directory for configuration files and a made-up machine.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <sstream>
#include <string>
#include <vector>

#include "base/check.h"
#include "server/config/option.h"
#include "server/config/settings.h"

namespace tiercel::config {

class ConfigFixture : public testing::Test {
 protected:
  static constexpr uint64_t kGiB = uint64_t{1} << 30;

  ConfigFixture() {
    std::string name = (std::filesystem::temp_directory_path() / "tiercel-config-XXXXXX").string();
    TIERCEL_CHECK(mkdtemp(name.data()) != nullptr);
    dir_ = name;
  }
  ~ConfigFixture() override { std::filesystem::remove_all(dir_); }

  std::string Path(const std::string& name) const { return (dir_ / name).string(); }
  std::string Write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((dir_ / name).parent_path());
    std::ofstream(dir_ / name, std::ios::trunc) << text;
    return Path(name);
  }
  std::string Read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(dir_ / name).rdbuf();
    return text.str();
  }

  Result<Settings> Load(std::vector<std::string> arguments) const { return LoadSettings(arguments, environment_); }
  Settings MustLoad(std::vector<std::string> arguments) const {
    Result<Settings> settings = Load(std::move(arguments));
    EXPECT_TRUE(settings.ok()) << (settings.ok() ? "" : settings.error().message());
    return settings.ok() ? *settings : Settings{};
  }
  // The message of a refused start.
  std::string Refusal(std::vector<std::string> arguments) const {
    const Result<Settings> settings = Load(std::move(arguments));
    EXPECT_FALSE(settings.ok());
    if (settings.ok()) return "";
    EXPECT_EQ(settings.error().message().find_first_of("\r\n"), std::string::npos);
    return settings.error().message();
  }

  Environment environment_{
      .memory = {.total_bytes = 64 * kGiB, .available_bytes = 60 * kGiB}, .host_name = "host-a", .check_user = {}};
  std::filesystem::path dir_;
};

}  // namespace tiercel::config
