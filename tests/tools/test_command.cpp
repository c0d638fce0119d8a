// SPDX-License-Identifier: MIT
// Runs the real command and looks at what a user would see.
#include <array>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include <sys/wait.h>

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

namespace {

struct outcome {
  int status;
  std::string output;  // both streams
};

// The build tree has the command two directories up from the tests.
std::string command() {
  const auto self = std::filesystem::read_symlink("/proc/self/exe");
  return (self.parent_path() / "../../tools/memopt").lexically_normal().string();
}

outcome shell(const std::string& line) {
  outcome result{-1, {}};
  std::FILE* pipe = popen(line.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> part{};
  while (const std::size_t count = std::fread(part.data(), 1, part.size(), pipe)) {
    result.output.append(part.data(), count);
  }
  const int status = pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

outcome run(const std::string& arguments, const std::string& redirect = "2>&1") {
  return shell(command() + " " + arguments + " " + redirect);
}

// For use between single quotes of the shell.
std::string quoted(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += c == '\'' ? std::string{"'\\''"} : std::string{c};
  }
  return out;
}

bool mentions(const outcome& result, const std::string& text) {
  return result.output.find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("help and version succeed", "[command]") {
  CHECK(run("--version").status == 0);
  const outcome help = run("--help");
  CHECK(help.status == 0);
  for (const char* verb : {"info", "check", "bench", "share"}) {
    CHECK(mentions(help, verb));
  }
}

TEST_CASE("a command line that makes no sense is status 2 and says why", "[command]") {
  CHECK(run("").status == 2);
  CHECK(run("frobnicate").status == 2);
  CHECK(run("bench --bytes 12parsecs").status == 2);
  CHECK(run("bench --bytes 1").status == 2);
  CHECK(run("bench --schemes thp,nonsense").status == 2);
  CHECK(run("bench --repeats 0").status == 2);
  CHECK(run("share serve").status == 2);
  CHECK(run("share serve --address 127.0.0.1 --rights x").status == 2);
  const outcome missing = run("share connect --address 127.0.0.1 --port 1");
  CHECK(missing.status == 2);
  CHECK(mentions(missing, "--token"));
}

TEST_CASE("a token that is none is refused before anything is tried", "[command]") {
  const outcome result = run("share connect --address 127.0.0.1 --port 1 --token abc");
  CHECK(result.status == 1);
  CHECK(mentions(result, "invalid_argument"));
}

TEST_CASE("an unknown device is an error with the names that exist", "[command]") {
  const outcome result = run("bench --device no_such_device --schemes baseline");
  CHECK(result.status == 1);
  CHECK(mentions(result, "no_device"));
}

TEST_CASE("an output that can not be written is known before the work", "[command]") {
  const outcome result = run("bench --json /nowhere/at/all.json");
  CHECK(result.status == 1);
  CHECK(mentions(result, "/nowhere/at/all.json"));
}

TEST_CASE("info and check give JSON that can be read, with and without a module", "[command]") {
  const auto info = nlohmann::json::parse(run("info --json", "2>/dev/null").output);
  CHECK(info.at("version") == 1);
  CHECK(info.at("module").contains("reason"));
  const outcome check = run("check --json", "2>/dev/null");
  const auto findings = nlohmann::json::parse(check.output);
  CHECK(findings.at("findings").size() >= 9);
  CHECK(findings.at("usable") == (check.status == 0));
}

TEST_CASE("on a prepared machine nothing needed is missing", "[command][guest]") {
  const outcome check = run("check");
  INFO(check.output);
  CHECK(check.status == 0);
  CHECK(mentions(check, "0 failed"));
  const auto info = nlohmann::json::parse(run("info --json", "2>/dev/null").output);
  CHECK(info.at("module").at("regions").size() == 2);
  CHECK_FALSE(info.at("devices").empty());
}

TEST_CASE("a scheme is measured and every byte verified", "[command][guest]") {
  const outcome result =
      run("bench --device rxe0 --schemes contig,cma --bytes 4M --transfers 2 --repeats 1 --quiet "
          "--json -",
          "2>/dev/null");
  REQUIRE(result.status == 0);
  const auto document = nlohmann::json::parse(result.output);
  REQUIRE(document.at("rows").size() == 2);
  for (const auto& row : document["rows"]) {
    INFO(row.dump());
    REQUIRE(row.at("reason").is_null());
    CHECK(row.at("bytes_verified") == row.at("bytes_moved"));
    CHECK(row.at("reg_again_us") > 0);
    CHECK(row.at("read_1M_MBps") > 0);
  }
}

TEST_CASE("a share is served, read, written and revoked by the command", "[command][guest]") {
  // The command goes in as $1; the rest is one script.
  static constexpr const char* script = R"sh(
set -e
memopt=$1
dir=$(mktemp -d)
cd "$dir"
head -c 3000000 /dev/urandom > original
head -c 100000 /dev/urandom > patch
"$memopt" share serve --address 10.9.9.1 --bytes 4M --rights rw --file original \
  --seconds 60 --json > served &
server=$!
for i in $(seq 100); do [ -s served ] && break; sleep 0.2; done
port=$(sed -n 's/.*"port":\([0-9]*\).*/\1/p' served)
token=$(sed -n 's/.*"token":"\([0-9a-f]*\)".*/\1/p' served)
connect() { "$memopt" share connect --address 10.9.9.1 --port "$port" "$@" 2>&1; }
echo "$token" | connect --token - --read 3000000 --output copy
cmp original copy
MEMOPT_TOKEN=$token connect --write patch --offset 777
connect --token "$token" --offset 777 --read 100000 --output back
cmp patch back
if connect --token 00000000000000000000000000000000 --read 64 --output none; then exit 10; fi
if connect --token "$token" --offset 4M --read 64 --output none; then exit 11; fi
kill -INT $server
wait $server
grep -q '"revoked":true' served
if connect --token "$token" --read 64 --output none; then exit 12; fi
cd /
rm -rf "$dir"
)sh";
  const outcome result = shell("sh -c '" + quoted(script) + "' sh " + command());
  INFO(result.output);
  CHECK(result.status == 0);
  CHECK(mentions(result, "rejected"));
}
