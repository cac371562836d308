# SPDX-License-Identifier: Apache-2.0
"""The parts that several adapters share: reasons to skip a trial, and tables with a row a sequence."""
import torch

# Options of clipped_pg with the one value that a framework has unless its adapter names another.
_PLAIN = {"token_level_loss": True, "ratio_clip_c": None, "disable_ppo_ratio": False,
          "force_on_policy_ratio": False, "use_cispo": False,
          "sequence_level_importance_ratios": False, "reference_policy_kl_penalty": 0,
          "use_importance_sampling_correction": False, "positive_example_nll_weight": 0,
          "entropy_coefficient": 0, "loss_agg_mode": None, "policy_loss": "ppo",
          "prox_logp_method": "recompute"}


def one_rank(problem):
    """The reason why a function without collectives does not take the problem."""
    return "it knows no TP" if problem.grid.tp > 1 else ""


def one_cp_rank(problem):
    """The reason why a sum over the own rows is not the loss of the pack."""
    return "its rows are those of one CP rank" if problem.grid.cp > 1 else ""


def by_id(weight, batch):
    """Returns the weight as [own ids, H], whatever its layout is."""
    return weight if batch.weight_layout == "vocab_hidden" else weight.t()


def equal_shards(problem):
    return "" if problem.vocab % problem.grid.tp == 0 else "it needs equal shards of the vocabulary"


def nll(problem):
    """The reason why a mean NLL over tokens is not the objective."""
    if problem.objective["kind"] != "nll" or not problem.objective["token_level_loss"]:
        return "it is a mean NLL over tokens"
    return ""


def terms(*own):
    """Returns `supports` of a function whose row terms are those in `own` and no others."""
    def supports(problem):
        if problem.objective.get("loss_type") == "dft":
            return "it has no loss_type dft"
        absent = {"label_smoothing", "z_loss_coefficient", "entropy_coefficient"} - set(own)
        return next((f"it has no {name}" for name in sorted(absent)
                     if problem.objective.get(name)), "")
    return supports


def transforms(*own):
    """Returns `supports` of a function whose transforms of logits are those in `own` and no others."""
    def supports(problem):
        none = {"logit_scale": 1, "logit_softcap": 0, "temperature": 1}
        return next((f"it has no {name}" for name in none
                     if name not in own and getattr(problem, name) != none[name]), "")
    return supports


def policy_loss(*given, **options):
    """Returns `supports` of a policy loss; it takes any value of the options in `given`, and the
    values of `options`."""
    wanted = {**_PLAIN, **options}

    def supports(problem):
        if problem.objective["kind"] != "clipped_pg":
            return "it is a policy loss"
        for name, value in wanted.items():
            if name not in given and problem.objective.get(name, value) != value:
                return f"it has no {name}={problem.objective[name]}"
        return ""
    return supports


def k3_without_clamps(problem):
    """The reason why the KL term, where there is one, is not k3 as it is."""
    wanted = {"reference_policy_kl_type": "k3", "kl_input_clamp_value": None,
              "kl_output_clamp_value": None, "use_kl_in_reward": False,
              "use_on_policy_kl_approximation": False}
    options = problem.objective
    if not options.get("reference_policy_kl_penalty"):
        return ""
    return next((f"it has no {name}={options[name]}" for name in wanted
                 if options[name] != wanted[name]), "")


def sigmoid_loss(options):
    """True if pairs of dpo have the logistic loss of the difference of their rewards."""
    return (options.get("loss_type", "sigmoid") == "sigmoid" and
            not options.get("label_smoothing") and
            options.get("f_divergence_type", "reverse_kl") == "reverse_kl")


def dpo(problem):
    """The reason why the loss is not DPO with sums of log-probabilities, mean over the pairs."""
    if problem.objective["kind"] != "dpo":
        return "it is a preference loss"
    if problem.objective["sft_loss_weight"] or problem.objective["preference_average_log_probs"]:
        return "it is DPO of sums, without a term of SFT"
    if not sigmoid_loss(problem.objective):
        return "it is DPO with the logistic loss"
    return "it has the mean over its own pairs" if problem.microbatches * problem.grid.dp > 1 else ""


def distill(problem):
    """The reason why the loss is not the divergence from all logits of a teacher."""
    if problem.objective["kind"] != "distill":
        return "it is a divergence from a teacher"
    if problem.objective["kl_type"] == "mixed":
        return "its divergence is forward, reverse or jsd"
    return "it takes all logits of the teacher" if problem.teacher_topk else ""


def beta_of(batch):
    """Returns the weight of the generalised JSD, whose ends are forward and reverse KL by name."""
    ends = {"forward": 0.0, "reverse": 1.0}
    return ends.get(batch.objective["kl_type"], batch.objective["jsd_beta"])


def first(*reasons):
    """Returns `supports` with the first reason of several."""
    return lambda problem: next(filter(None, (reason(problem) for reason in reasons)), "")


class Rows:
    """Tables [B, S - 1] of a batch on every CP rank; column j is about token j + 1."""

    def __init__(self, batch):
        self._batch = batch
        self.mask = self._table(batch.pack.mask)

    def _table(self, pack):
        return self._batch.rows_to_padded(pack)[:, :-1]

    def join(self, rows):
        """Returns values of the own rows [T_c] as a table, 0 where nothing is predicted."""
        predicts = self._batch.predicts
        rows = torch.where(predicts, rows, torch.zeros_like(rows))
        return self._table(self._batch.join_cp(rows))

    def __getattr__(self, name):  # advantages, prev_logprobs, ...
        return self._table(getattr(self._batch.pack, name))
