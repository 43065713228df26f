/* GNI for the snakeboard on R2 x T3, q = (x, y, theta, psi, phi), diagonal metric M, axle distance r. Explicit. */
#include "common.h"
enum { PARAMETERS = 6, START = 10, ROW = 16 };

static void run(long n, double h, const double *parameters, V *state, V *out) {
  const double ix = 1 / parameters[0], iy = 1 / parameters[1], it = 1 / parameters[2], r = parameters[5];
  const double hx = h * ix, hy = h * iy, ht = h * it, hs = h / parameters[3], hf = h / parameters[4];
  V x = state[0], y = state[1], theta = state[2], psi = state[3], phi = state[4];
  V px = state[5], py = state[6], pt = state[7], ps = state[8], pf = state[9];
  for (long k = 0; k < n; k++, out += ROW) {
    x += hx * px, y += hy * py, theta += ht * pt, psi += hs * ps, phi += hf * pf;
    V front = theta + phi, back = theta - phi, arm = r * cosine(phi);
    V a0 = sine(front), a1 = -cosine(front), b0 = sine(back), b1 = -cosine(back); /* a2 = arm, b2 = -arm */
    V u0 = ix * a0, u1 = iy * a1, v0 = ix * b0, v1 = iy * b1, w = it * arm;
    V aa = a0 * u0 + a1 * u1 + arm * w, ab = b0 * u0 + b1 * u1 - arm * w, bb = b0 * v0 + b1 * v1 + arm * w;
    V ra = u0 * px + u1 * py + w * pt, rb = v0 * px + v1 * py - w * pt;
    V scale = 2.0 / (aa * bb - ab * ab), la = (bb * ra - ab * rb) * scale, lb = (aa * rb - ab * ra) * scale;
    out[0] = constant(k + 1);
    out[1] = x, out[2] = y, out[3] = theta, out[4] = psi, out[5] = phi;
    out[6] = px, out[7] = py, out[8] = pt, out[9] = ps, out[10] = pf;
    px -= a0 * la + b0 * lb, py -= a1 * la + b1 * lb, pt -= arm * (la - lb);
    out[11] = px, out[12] = py, out[13] = pt, out[14] = ps, out[15] = pf;
  }
}
#include "main.h"
