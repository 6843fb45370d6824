// How many threads this process may usefully run: affinity, physical cores, cgroup quota.
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/pool.h"

namespace engine::cpu {
namespace {

int read_int(const std::string& path, int fallback) {
  std::ifstream in(path);
  int value;
  return in >> value ? value : fallback;
}

// The processors this process may run on; where the system does not tell, as many as there are.
std::vector<int> allowed_processors() {
  std::vector<int> processors;
  cpu_set_t set;
  CPU_ZERO(&set);
  const bool known = sched_getaffinity(0, sizeof set, &set) == 0;
  const int count = known ? CPU_SETSIZE : static_cast<int>(std::thread::hardware_concurrency());
  for (int cpu = 0; cpu < count; ++cpu)
    if (!known || CPU_ISSET(static_cast<std::size_t>(cpu), &set)) processors.push_back(cpu);
  if (processors.empty()) processors.push_back(0);
  return processors;
}

// Distinct (package, core) pairs among them.
int allowed_cores() {
  std::set<std::pair<int, int>> cores;
  for (const int cpu : allowed_processors()) {
    const std::string topology = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    // Without topology files every processor counts as a core of its own.
    cores.emplace(read_int(topology + "physical_package_id", 0),
                  read_int(topology + "core_id", -1 - cpu));
  }
  return static_cast<int>(cores.size());
}

// The path of this process in the cgroup hierarchy of a v1 controller ("cpu"), or in v2 for "".
std::string cgroup_path(const std::string& controller) {
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {  // "4:cpu,cpuacct:/path" or "0::/path"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::stringstream names(line.substr(first + 1, second - first - 1));
    if (controller.empty() && second == first + 1) return line.substr(second + 1);
    for (std::string name; std::getline(names, name, ',');)
      if (!controller.empty() && name == controller) return line.substr(second + 1);
  }
  return "/";
}

// Calls visit(directory) for the cgroup at `path` and all its parents: any of them may hold the
// quota.
template <class Visit>
void visit_ancestors(const std::string& root, std::string path, const Visit& visit) {
  for (;;) {
    visit(root + path);
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos || path.size() <= 1) return;
    path = slash == 0 ? "/" : path.substr(0, slash);
  }
}

// CPUs' worth of time per period that the cgroups allow; infinity without a quota.
double cgroup_cpus() {
  double cpus = INFINITY;
  visit_ancestors("/sys/fs/cgroup", cgroup_path(""), [&](const std::string& dir) {
    std::ifstream in(dir + "/cpu.max");  // "max 100000" or "200000 100000"
    std::string quota;
    double period;
    if (in >> quota >> period && quota != "max" && period > 0)
      cpus = std::min(cpus, std::strtod(quota.c_str(), nullptr) / period);
  });
  visit_ancestors("/sys/fs/cgroup/cpu", cgroup_path("cpu"), [&](const std::string& dir) {
    const int quota = read_int(dir + "/cpu.cfs_quota_us", -1);
    const int period = read_int(dir + "/cpu.cfs_period_us", 0);
    if (quota > 0 && period > 0) cpus = std::min(cpus, static_cast<double>(quota) / period);
  });
  return cpus;
}

}  // namespace

int default_threads() {
  const int cores = allowed_cores();
  const double quota = cgroup_cpus();
  return quota >= cores ? cores : std::max(1, static_cast<int>(quota));
}

int most_threads() {
  const int processors = static_cast<int>(allowed_processors().size());
  const double quota = std::ceil(cgroup_cpus());
  return quota >= processors ? processors : std::max(1, static_cast<int>(quota));
}

}  // namespace engine::cpu
