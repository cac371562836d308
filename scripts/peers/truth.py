# SPDX-License-Identifier: Apache-2.0
"""The float64 truth of a bundle and how far a right peer may be from it.

Loss and gradients are computed in float64 from the bundle's inputs, by chunks of rows on the device
that is timed; where the bundle has expected.*, both have to agree. The bounds are those of
harness/verify/bounds.h and linear_bounds.h, for peers of which nothing is known but the dtypes of
what they return: sums over the vocabulary in chains of V / 256 float32 additions, and from hidden
states the gradient of the logits rounded to the dtype of the factors before the products.
A peer may declare more (losses.py): that it rounds the logits which it makes to that dtype, one
rounding each; and that it adds chunks of the gradient of the weight up in the dtype of the result,
so many additions, each of which rounds the sum so far.
"""

import math

from peers.bundle import IGNORED, BadInput

U = {"f32": 2.0**-24, "bf16": 2.0**-8}
K = 3  # roundings that are independent combine as a root of squares; the largest of many is within
CHUNK_BYTES = 1 << 28  # of one float64 matrix of rows x vocab
AGREES = 1e-9


def dtype_name(torch, tensor):
    return "bf16" if tensor.dtype == torch.bfloat16 else "f32"


class Truth:
    """loss; want[name] of "grad_logits" is made row by row, those of the others are kept."""

    def __init__(self, torch, bundle, inputs, device):
        self._torch, self._bundle, self._inputs, self._device = torch, bundle, inputs, device
        self._targets = torch.tensor(bundle.targets, device=device)
        self._valid = self._targets != IGNORED
        self._g = 1.0 / bundle.valid_tokens
        self._adds = -(-bundle.vocab // 256)
        self._linear = {}
        self._loss_terms()
        if bundle.has("expected.loss"):
            self._agree(bundle)

    # Rows ---------------------------------------------------------------------------------------

    def _chunks(self):
        rows = max(1, CHUNK_BYTES // (8 * self._bundle.vocab))
        for begin in range(0, self._bundle.tokens, rows):
            yield slice(begin, min(self._bundle.tokens, begin + rows))

    def _rows(self, rows):
        """p and dz of some rows, float64, zero for rows without target; and what bounds need."""
        torch, bundle = self._torch, self._bundle
        if bundle.hidden:
            weight = self._inputs["weight"].double()
            hidden = self._inputs["hidden"][rows].double()
            z = hidden @ weight.T
            errors = 4 * U["f32"] * hidden.norm(dim=1, keepdim=True) * weight.norm(dim=1)
        else:
            z = self._inputs["logits"][rows].double()
            errors = torch.zeros((), dtype=torch.float64, device=z.device)
        valid = self._valid[rows]
        y = torch.where(valid, self._targets[rows], 0)[:, None]
        m = z.amax(dim=1, keepdim=True)
        distance = m - z
        e = torch.exp(-distance)
        s = e.sum(dim=1, keepdim=True)
        p = e / s
        distance = torch.where(p > 0, distance, 0)
        dz = p * self._g
        dz.scatter_add_(1, y, torch.full_like(dz[:, :1], -self._g))
        dz = torch.where(valid[:, None], dz, 0)
        return {"z": z, "p": p, "dz": dz, "y": y, "m": m, "ln_s": s.log(), "distance": distance,
                "errors": errors, "valid": valid[:, None]}

    def _slack(self, r):
        """How far float32 may be from dz before it is rounded to the result (bounds.h)."""
        lse = (r["m"] + r["ln_s"]).abs()
        p, errors = r["p"], r["errors"]
        mean_error = (p * errors).sum(dim=1, keepdim=True)
        away = r["dz"].abs() / self._g
        slack = self._g * (U["f32"] * (p * (4 * (8 + r["distance"] + r["ln_s"].abs() + lse)
                                            + self._adds) + 4 * away)
                           + p * (errors + mean_error))
        return self._torch.where(r["valid"], slack.clamp(min=2.0**-126), 0)

    def _roundings(self, r):
        """By which part p may change when a logit is rounded."""
        return self._torch.expm1(U[self._bundle.dtype] * r["z"].abs())

    # Loss ---------------------------------------------------------------------------------------

    def _loss_terms(self):
        total = bound = variance = 0.0
        for rows in self._chunks():
            r = self._rows(rows)
            away = (r["m"] - r["z"].gather(1, r["y"])).abs()
            logprob = -away - r["ln_s"]
            spread = (r["p"] * r["distance"]).sum(dim=1, keepdim=True)
            lse = (r["m"] + r["ln_s"]).abs()
            errors = r["errors"].expand_as(r["z"])
            b = 8 + spread + r["ln_s"].abs() + away + logprob.abs()
            limit = (U["f32"] * (4 * (b + lse) + self._adds) + errors.gather(1, r["y"])
                     + (r["p"] * errors).sum(dim=1, keepdim=True))
            roundings = self._roundings(r)
            squares = roundings.gather(1, r["y"])**2 + ((r["p"] * roundings)**2).sum(dim=1,
                                                                                   keepdim=True)
            total -= float(logprob[r["valid"]].sum())
            bound += float(limit[r["valid"]].sum())
            variance += float(squares[r["valid"]].sum())
        self.loss = total * self._g
        self._loss_bound = bound * self._g
        self._loss_roundings = K * math.sqrt(variance) * self._g

    def check_loss(self, loss, rounds_logits):
        """`loss`: what a peer returned, rounded to its dtype once a token and once in all."""
        bound = self._loss_bound + 2 * U[dtype_name(self._torch, loss)] * abs(self.loss)
        if rounds_logits:
            bound += self._loss_roundings
        check = Check("loss")
        check.add(self._torch, loss.detach().double().reshape(1), self._one(self.loss),
                  self._one(bound), lambda at: {})
        return [check.record()]

    def _one(self, value):
        return self._torch.tensor([value], dtype=self._torch.float64, device=self._device)

    # Gradients ----------------------------------------------------------------------------------

    def check_gradients(self, gradients, rounds_logits, chunk_adds):
        """Gradients by name of the input."""
        records = []
        for name, got in gradients.items():
            check, bias = Check(f"grad_{name}"), Bias(f"grad_{name}_bias")
            u_out = U[dtype_name(self._torch, got)]
            for rows, want, independent, common in self._parts(name, u_out, rounds_logits,
                                                               chunk_adds):
                value = got[rows].double()
                check.add(self._torch, value, want, independent + common,
                          lambda at, begin=rows.start: self._place(name, at, begin))
                # Equal elements round the same way, so the bias is that from what is rounded.
                bias.add(value, want, want.to(got.dtype).double(), independent, common)
            records += [check.record(), bias.record()]
        return records

    def _parts(self, name, u_out=0.0, rounds_logits=False, chunk_adds=0):
        """(rows, truth, slack of independent roundings, of what goes one way)"""
        if name == "logits":
            for rows in self._chunks():
                r = self._rows(rows)
                yield rows, r["dz"], 1.01 * u_out * r["dz"].abs(), self._slack(r)
            return
        truth = self._linear_truth()[name]
        spread = truth["rounded_spread" if rounds_logits else "spread"]
        rows_of_part = max(1, CHUNK_BYTES // (8 * self._bundle.hidden))
        for begin in range(0, truth["want"].shape[0], rows_of_part):
            rows = slice(begin, min(begin + rows_of_part, truth["want"].shape[0]))
            want = truth["want"][rows]
            adds = math.sqrt(chunk_adds) if name == "weight" else 0.0
            independent = K * (u_out * want.abs() + spread[rows].double() + u_out * adds * (
                truth["spread"][rows].double() / U[self._bundle.dtype] + want.abs()))
            yield rows, want, independent, truth["common"][rows].double()

    def _place(self, name, at, begin):
        if name == "weight":
            return {"vocab_id": begin + at[0]}
        sequence, offset = self._bundle.place(begin + at[0])
        return {"sequence": sequence, "token": offset,
                "vocab_id": at[1] if name == "logits" else None}

    def _linear_truth(self):
        """Of hidden states and weight: want, and what linear_bounds.h makes bounds of."""
        if not self._linear:
            torch, bundle, device = self._torch, self._bundle, self._device
            for name, rows in (("hidden", bundle.tokens), ("weight", bundle.vocab)):
                self._linear[name] = {
                    key: torch.zeros(rows, bundle.hidden, device=device, dtype=torch.float64)
                    for key in ("want", "shift", "common", "spread", "rounded_spread")}
            for rows in self._chunks():
                self._add_linear_rows(rows)
            u_dz = U[bundle.dtype]
            for name, terms in (("hidden", bundle.vocab), ("weight", bundle.valid_tokens)):
                t = self._linear[name]
                for key in ("spread", "rounded_spread"):  # squares would underflow in float32
                    t[key] = t[key].sqrt_().float()
                t["common"] = (t["common"] + t.pop("shift").abs() + 3 * U["f32"] * math.sqrt(terms)
                               * (t["spread"] / u_dz + t["want"].abs())).float()
        return self._linear

    def _add_linear_rows(self, rows):
        torch, bundle = self._torch, self._bundle
        r = self._rows(rows)
        x, w = self._inputs["hidden"][rows].double(), self._inputs["weight"].double()
        dz, g = r["dz"], self._g
        tau = self._slack(r) + 4 * U["f32"] * dz.abs()  # the second: roundings of the products
        shift = dz.bfloat16().double() - dz if bundle.dtype == "bf16" else torch.zeros_like(dz)
        variance = (U[bundle.dtype] * dz)**2
        # dz of logits that are rounded: g p_k (e_k - sum p e).
        pe = torch.where(r["valid"], g * r["p"] * self._roundings(r), 0)
        mean = (pe**2).sum(dim=1, keepdim=True)
        of_weight = variance + pe**2 + r["p"]**2 * mean
        parts = {"want": dz, "shift": shift, "common": tau, "spread": variance}
        for key, factor in parts.items():
            x_k, w_k = {"common": (x.abs(), w.abs()), "spread": (x**2, w**2)}.get(key, (x, w))
            self._linear["hidden"][key][rows] = factor @ w_k
            self._linear["weight"][key] += factor.T @ x_k
        p_w = r["p"] @ w
        self._linear["hidden"]["rounded_spread"][rows] = (
            (variance + pe**2) @ w**2 + mean * p_w**2)
        self._linear["weight"]["rounded_spread"] += of_weight.T @ x**2

    # The bundle's own truth -----------------------------------------------------------------------

    def _agree(self, bundle):
        torch = self._torch

        def expected(name):
            return bundle.tensor(torch, f"expected.{name}", self._device).double()

        def require(name, error, size):
            if not error <= AGREES * max(size, 1e-300):
                raise BadInput(f"{bundle.path}: expected.{name} is not what the inputs give: a "
                               f"difference of {error:.3g}, of {size:.3g}")

        require("loss", abs(self.loss - float(expected("loss"))), abs(self.loss))
        for name in ("hidden", "weight") if bundle.hidden else ("logits",):
            theirs = expected(f"grad_{name}")
            error = size = 0.0
            for rows, want, _, _ in self._parts(name):
                error = max(error, float((theirs[rows] - want).abs().max()))
                size = max(size, float(want.abs().max()))
            require(f"grad_{name}", error, size)


class Check:
    """The worst element: error / bound, where a bound of 0 allows no error."""

    def __init__(self, name):
        self._name, self._ratio, self._compared, self._beyond = name, -1.0, 0, 0
        self._worst = None

    def add(self, torch, got, want, bound, place):
        error = (got - want).abs()
        ratio = torch.where(error == 0, 0.0, error / bound)
        ratio = torch.where(torch.isfinite(got), ratio, math.inf)
        self._compared += got.numel()
        self._beyond += int((ratio > 1).sum())
        at = int(ratio.argmax())
        if float(ratio.flatten()[at]) > self._ratio:
            self._ratio = float(ratio.flatten()[at])
            index = divmod(at, got.shape[1]) if got.dim() == 2 else (at,)
            self._worst = (float(got.flatten()[at]), float(want.flatten()[at]),
                           float(error.flatten()[at]), float(bound.flatten()[at]), place(index))

    def record(self):
        got, want, error, bound, place = self._worst
        worst = {"rank": 0, "sequence": None, "token": None, "vocab_id": None, **place,
                 "got": finite(got), "want": finite(want)}
        return {"name": self._name, "passed": self._ratio <= 1, "ratio": finite(self._ratio),
                "error_abs": finite(error), "bound_abs": finite(bound),
                "compared": self._compared, "beyond_bound": self._beyond, "worst": worst}


class Bias:
    """<got - rounded, want> / <want, want>: a factor that no single element shows."""

    def __init__(self, name):
        self._name, self._compared = name, 0
        self._error = self._squares = self._common = self._size = 0.0

    def add(self, got, want, rounded, independent, common):
        self._compared += got.numel()
        self._error += float(((got - rounded) * want).sum())
        self._squares += float(((independent * want)**2).sum())
        self._common += float((common * want).abs().sum())
        self._size += float((want**2).sum())

    def record(self):
        error = abs(self._error) / self._size
        bound = (K * math.sqrt(self._squares) + self._common) / self._size
        ratio = error / bound if math.isfinite(error) else math.inf
        return {"name": self._name, "passed": ratio <= 1, "ratio": finite(ratio),
                "error_abs": finite(error), "bound_abs": bound, "compared": self._compared,
                "beyond_bound": int(ratio > 1), "worst": None}


def finite(value):
    return value if math.isfinite(value) else None
