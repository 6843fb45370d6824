#include "engine/main_directions.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace engine {
namespace {

double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

// Makes v orthogonal to each of `others`, which have length 1 and are orthogonal, then of length 1; false if nothing
// is left.
bool orthonormalise(std::span<double> v, std::span<const std::vector<double>> others) {
  const auto inner = [&](std::span<const double> other) {
    double sum = 0;
    for (std::size_t i = 0; i < v.size(); ++i) sum += v[i] * other[i];
    return sum;
  };
  for (const std::vector<double>& other : others) {
    const double share = inner(other);
    for (std::size_t i = 0; i < v.size(); ++i) v[i] -= share * other[i];
  }
  const double length = std::sqrt(inner(v));
  if (!(length > 1e-9)) return false;
  for (double& value : v) value /= length;
  return true;
}

// y = m x, m [n, n].
std::vector<double> product(std::span<const double> m, std::span<const double> x) {
  std::vector<double> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t j = 0; j < x.size(); ++j) y[i] += m[i * x.size() + j] * x[j];
  return y;
}

// Eigenvectors of the largest eigenvalues of a symmetric matrix [n, n] with none below zero, by the power
// method; roughly, which is enough here.
std::vector<std::vector<double>> main_eigenvectors(std::span<const double> m, std::size_t n,
                                                   int n_vectors) {
  constexpr int kSteps = 24;
  std::vector<std::vector<double>> found;
  for (int k = 0; k < n_vectors; ++k) {
    std::vector<double> v(n);
    for (std::size_t i = 0; i < n; ++i) v[i] = 1 + 0.1 * static_cast<double>((7 * i + 3) % 11);
    bool is_left = orthonormalise(v, found);
    for (int step = 0; step < kSteps && is_left; ++step) {
      v = product(m, v);
      is_left = orthonormalise(v, found);
    }
    if (!is_left) break;
    found.push_back(std::move(v));
  }
  return found;
}

}  // namespace

MainDirections::MainDirections(int width)
    : width_(static_cast<std::size_t>(width)),
      vectors_(kVectors * width_),
      directions_(kDirections * width_) {}

std::span<const float> MainDirections::vector(int i) const {
  return std::span(vectors_).subspan(static_cast<std::size_t>(i) * width_, width_);
}

std::span<const float> MainDirections::direction(int k) const {
  return std::span(directions_).subspan(static_cast<std::size_t>(k) * width_, width_);
}

void MainDirections::add(std::span<const float> x) {
  const double length = std::sqrt(dot(x, x));
  if (!(length > 0) || !std::isfinite(length)) return;
  float* const to = vectors_.data() + n_seen_ % kVectors * width_;
  for (std::size_t i = 0; i < width_; ++i)
    to[i] = static_cast<float>(static_cast<double>(x[i]) / length);
  ++n_seen_;
}

double MainDirections::share_held() const {
  double sum = 0;
  for (int i = 0; i < n_held(); ++i)
    for (int k = 0; k < kDirections; ++k) {
      const double c = dot(vector(i), direction(k));
      sum += c * c;
    }
  return n_held() == 0 ? 0 : sum / n_held();
}

bool MainDirections::update() {
  constexpr double kEnough = 0.6;  // of what directions made for the last vectors would hold
  if (n_seen_ < due_) return false;
  due_ = (n_seen_ / kVectors + 1) * kVectors;

  // 1 eigenvectors of the products of all pairs, which are combinations of the vectors
  const auto n = static_cast<std::size_t>(n_held());
  std::vector<double> products(n * n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j)
      products[i * n + j] = products[j * n + i] =
          dot(vector(static_cast<int>(i)), vector(static_cast<int>(j)));
  const auto combinations = main_eigenvectors(products, n, kDirections);

  // 2 is it worth a change?
  std::array<double, kDirections> held{};  // the eigenvalues
  double all_held = 0;
  for (std::size_t k = 0; k < combinations.size(); ++k) {
    const std::vector<double> image = product(products, combinations[k]);
    for (std::size_t i = 0; i < n; ++i) held[k] += image[i] * combinations[k][i];
    all_held += held[k];
  }
  if (share_held() >= kEnough * all_held / static_cast<double>(n)) return false;

  // 3 the directions
  std::fill(directions_.begin(), directions_.end(), 0.0f);
  for (std::size_t k = 0; k < combinations.size(); ++k) {
    if (!(held[k] > 1e-9)) continue;
    float* const to = directions_.data() + k * width_;
    for (std::size_t j = 0; j < width_; ++j) {
      double sum = 0;
      for (std::size_t i = 0; i < n; ++i)
        sum += combinations[k][i] * static_cast<double>(vectors_[i * width_ + j]);
      to[j] = static_cast<float>(sum / std::sqrt(held[k]));
    }
  }
  return true;
}

}  // namespace engine
