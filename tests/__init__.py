"""Tests of the product; product code never imports from here."""
