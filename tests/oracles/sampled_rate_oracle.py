"""Kafka's arithmetic of quotas, plainly: SampledStat, Rate and the throttle time that follows."""


class SampledRateOracle:
    """Samples as (start, last event, amount), the newest last."""

    def __init__(self, bound: float, windows: int, window_ms: int) -> None:
        """Begin without samples."""
        self.bound = bound
        self.windows = windows
        self.window_ms = window_ms
        self.samples: list[list[float]] = []

    def add(self, amount: float, now_ms: int) -> int:
        """Record an amount; return the throttle time."""
        if not self.samples or now_ms - self.samples[-1][0] >= self.window_ms:
            self.samples.append([now_ms, now_ms, 0])
            del self.samples[: -(self.windows + 1)]
        self.samples[-1][1] = now_ms
        self.samples[-1][2] += amount
        return self.throttle_ms(now_ms)

    def throttle_ms(self, now_ms: int) -> int:
        """Return the time after which the rate would be the bound."""
        for sample in self.samples:
            if now_ms - sample[1] >= self.windows * self.window_ms:
                sample[:] = now_ms, now_ms, 0
        span = now_ms - min(sample[0] for sample in self.samples)
        lacking = self.windows - 1 - span // self.window_ms
        span = max(1, span + max(0, lacking) * self.window_ms)
        rate = sum(sample[2] for sample in self.samples) * 1000 / span
        if rate <= self.bound:
            return 0
        return max(1, int((rate - self.bound) / self.bound * span + 0.5))
