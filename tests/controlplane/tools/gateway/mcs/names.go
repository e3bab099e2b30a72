// Package controllers stands in for a module of which Cilium uses one name.
package controllers

// DerivedServiceAnnotation says on a ServiceImport which Service of the cluster stands for it.
const DerivedServiceAnnotation = "multicluster.kubernetes.io/derived-service"
