"""What envlock costs, as ratios against the tools it drives."""
