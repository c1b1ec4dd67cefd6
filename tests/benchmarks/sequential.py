"""The sequential rule against a fixed design. Run: python -m tests.benchmarks.sequential recorded_judgments.csv.gz

Real judges answered real pairs in both orders; each judge with its prompting strategy is a configuration, all at one
price. The fixed design asks every configuration about every pair. The sequential one goes through the configurations
in random order, items in random order, and drops one as soon as `DominatedStop` says that an earlier one, measured in
full, is better. Prints whether both name the same best, the calls saved, and how often a stop was wrong: the whole
suite would have put the stopped configuration at or above its rival. The exit code says whether that stays under alpha.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass

import pandas as pd

from jrh_mlflow.measures.composite import cast_vote, decision_of, pair_hit
from jrh_mlflow.schema.items import NATURAL, CallRecord, Item
from jrh_mlflow.sweeps.space import Policy
from jrh_mlflow.sweeps.trials import ALPHA, DominatedStop, Rival

PRICE = 1e-4


@dataclass
class Recorded:
    """One configuration: what it answered about each pair."""

    name: str
    items: dict[str, Item]
    calls: dict[str, list[CallRecord]]

    def value(self, policy: Policy) -> float:
        """Share of right decisions on the whole suite; unusable ones count as right, as they do in the bound."""
        return sum(self._right(item, policy) for item in self.items.values()) / len(self.items)

    def _right(self, item: Item, policy: Policy) -> bool:
        votes = [cast_vote(order=one.order, outcome=one.outcome, answer=one.answer) for one in self.calls[item.id]]
        made = decision_of(votes, item=item.id, vote=policy.vote, orders=policy.orders, pair=True)
        return not made.value or pair_hit("natural_accuracy", made.value, item.better or "")


def read(path: str) -> list[Recorded]:
    """Read the table: dataset, item, judge_model, strategy, gold, winner_order_ab, winner_order_ba."""
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    found = []
    for (judge, strategy), rows in frame.groupby(["judge_model", "strategy"], sort=True):
        items, calls = {}, {}
        for row in rows.to_dict("records"):
            name = f"{row['dataset']}/{row['item']}"
            better = {"1": "u", "2": "v"}[row["gold"][0]]
            items[name] = Item(id=name, task=name, condition=NATURAL, better=better)
            calls[name] = [record(name, better, order, row[f"winner_order_{side}"]) for order, side in ORDERS]
        found.append(Recorded(name=f"{judge}, {strategy}", items=items, calls=calls))
    shared = set.intersection(*(set(one.items) for one in found))
    for one in found:
        one.items = {name: item for name, item in one.items.items() if name in shared}
    return found


ORDERS = (("uv", "ab"), ("vu", "ba"))


def record(item: str, better: str, order: str, winner: str) -> CallRecord:
    """Read one recorded judgment: the winner is a content, 1 or 2; empty is unparsed."""
    said = winner[:1]
    slot = said if order == "uv" else {"1": "2", "2": "1"}.get(said, "")
    outcome = "verdict" if said in ("1", "2") else "unparsed"
    facts = {"suite_item": item, "task": item, "condition": NATURAL, "delta": None, "better": better, "replicate": 0}
    return CallRecord(
        **facts, order=order, outcome=outcome, answer=slot if outcome == "verdict" else "", expected="", cost_usd=PRICE
    )


@dataclass
class Counts:
    """What one pass through the configurations came to."""

    calls: int = 0
    stops: int = 0
    wrong: int = 0
    best: str = ""


def one_pass(configurations: list[Recorded], policy: Policy, values: dict[str, float], seed: int) -> Counts:
    """Go through the configurations once, in random order."""
    rng, counts, rivals = random.Random(seed), Counts(), list[Rival]()
    for one in rng.sample(configurations, len(configurations)):
        items = rng.sample(list(one.items.values()), len(one.items))
        rule = DominatedStop(items=items, policy=policy, rivals=[max(rivals, key=lambda r: r.value)] if rivals else [])
        stopped = None
        for item in items:
            for call in one.calls[item.id]:
                counts.calls += 1
                stopped = rule(call) or stopped
            if stopped:
                break
        if stopped:
            counts.stops += 1
            counts.wrong += values[one.name] >= rule.rivals[0].value
        else:
            price = 1000 * PRICE * policy.calls_per_judgment(pair=True)
            rivals.append(Rival(label=one.name, value=values[one.name], usd_per_1k=price))
    counts.best = max(rivals, key=lambda r: r.value).label
    return counts


def main() -> int:
    """Print the comparison for both order policies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path")
    parser.add_argument("--passes", type=int, default=20)
    given = parser.parse_args()
    configurations = read(given.path)
    n_items, failed = len(configurations[0].items), False
    print(f"{len(configurations)} configurations, {n_items} pairs, {given.passes} passes, alpha {ALPHA}")
    for orders in ("one", "both"):
        policy = Policy(replicates=1, vote="majority", orders=orders)
        values = {one.name: one.value(policy) for one in configurations}
        top = max(values.values())
        passes = [one_pass(configurations, policy, values, seed) for seed in range(given.passes)]
        fixed, asked = 2 * n_items * len(configurations) * given.passes, sum(one.calls for one in passes)
        stops, wrong = sum(one.stops for one in passes), sum(one.wrong for one in passes)
        same = sum(values[one.best] == top for one in passes)
        rate = wrong / max(1, stops)
        failed |= rate > ALPHA or same < (1 - ALPHA) * given.passes
        print(f"orders {orders}: the same best in {same} of {given.passes} passes")
        print(f"  calls {asked} of {fixed}: {1 - asked / fixed:.0%} saved")
        print(f"  {stops} stops, {wrong} wrong: {rate:.2%}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
