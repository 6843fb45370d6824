// weights[i] = exp((logits[i] - max) / temperature) * 2^32: what a token weighs in the sampler's
// draw, which rounds it down to an integer (at most 2^32, that of the most likely token).
//
// Division, op::exp, product. logits [n] f32, finite or minus infinity (weight +0); max is the
// largest of them; temperature > 0. weights [n] f32; may equal logits.
// On a device it is a part of op/sample.h.
// Tolerance against ref (double): 2^-24 * (4 + 2 * |logits[i] - max| / temperature) * weight +
// 2^-117: exp passes on the relative error of its argument times the argument, and underflows in
// steps of 2^-149.
#pragma once

namespace engine::op {

struct SampleWeightsArgs {
  const float* logits;  // [n]
  float* weights;       // [n]
  int n;
  float max, temperature;
};

}  // namespace engine::op

namespace engine::ref {
void sample_weights(const op::SampleWeightsArgs&);
}
namespace engine::cpu {
class Pool;
void sample_weights(const op::SampleWeightsArgs&, Pool&);
}  // namespace engine::cpu
