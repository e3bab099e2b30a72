module allotment.dev/controlplane/vcluster

go 1.26.0

require github.com/loft-sh/vcluster v0.36.1
