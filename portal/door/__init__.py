"""The door to notebooks and services: a process that passes bytes to pods and back, and asks who may."""
