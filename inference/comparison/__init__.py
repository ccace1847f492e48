"""Predictive accuracy: observations, comparison of models, sensitivity to power scaling.

It works on log likelihoods and log priors at draws, and knows no models;
:mod:`inference.drivers` computes them.
"""
