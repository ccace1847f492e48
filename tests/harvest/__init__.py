"""Tests of ppl.harvest: the laws over one table of constructs, and what the table cannot say."""
