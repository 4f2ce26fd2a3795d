// One command's words. Text is borrowed and must outlive the command; numbers are kept here.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tiercel::client {

class Words {
 public:
  Words() = default;
  Words(std::initializer_list<std::string_view> words) : words_(words) {}
  Words(Words&&) noexcept = default;
  Words& operator=(Words&&) noexcept = default;

  Words& Add(std::string_view borrowed) {
    words_.push_back(borrowed);
    return *this;
  }
  Words& AddNumber(int64_t number) { return AddOwned(std::to_string(number)); }
  Words& AddOwned(std::string text) {
    words_.push_back(owned_.emplace_back(std::move(text)));
    return *this;
  }

  std::span<const std::string_view> view() const { return words_; }
  std::vector<std::string_view> copy() const { return words_; }

 private:
  std::vector<std::string_view> words_;
  std::list<std::string> owned_;  // a list: its strings stay where they are, also when this is moved
};

}  // namespace tiercel::client
