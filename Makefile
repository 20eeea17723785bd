# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# What Debian has to bring, beside Go and make: what the playground's nodes run
# with, gcc for the race detector, and what the demo reads answers with.
DEBIAN_PACKAGES := acl ca-certificates conntrack curl gcc git iptables iproute2 jq libc6-dev nftables protobuf-compiler rsync runc

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help

# One set of flags for everything, the Kubernetes build included: they share
# what is compiled.
export CGO_ENABLED := 0
export GOFLAGS     := -trimpath -buildvcs=false

PROGRAMS := ./apiserver/cmd/federation-apiserver ./controllers/cmd/federation-controller-manager ./controllers/cmd/federation-virtual-kubelet ./controllers/cmd/federation-mover \
	./netagent/cmd/federation-gateway ./netagent/cmd/federation-route

PLAYGROUND := .playground/bin/playground

##@ The two commands

.PHONY: demo
demo: packages ## Two real clusters, peered, and a pod of one running on the other.
	@hack/demo.sh

.PHONY: test
test: ## Everything that must be green: verify, unit, kernel, integration and e2e tests.
	@$(MAKE) verify
	@$(MAKE) test-unit
	@$(MAKE) test-netns
	@$(MAKE) test-integration
	@$(MAKE) test-e2e

# The parts of the long tests; each takes at most an hour.
PART ?= test properties layouts three chaos storage moves bench

.PHONY: test-full
test-full: packages images samples ## The long tests, or PART=… of them; RESUME=1 goes on with what did not succeed.
	@set -e; for part in $(PART); do hack/test-full.sh $$part; done

##@ Building

.PHONY: build
build: ## The programs, into bin/.
	@mkdir -p bin
	go build -ldflags '-s -w' -o bin/ $(PROGRAMS)

.PHONY: images
images: build playground ## The images of the programs, into _output/images/*.tar.
	@hack/images.sh

.PHONY: samples
samples: playground ## The images of the sample applications, into _output/samples/.
	@hack/samples.sh

.PHONY: chart
chart: helm ## The packaged Helm chart, into _output/.
	.playground/bin/helm package artifacts/chart --destination _output

.PHONY: kustomize
kustomize: helm ## The chart as a kustomize base, into _output/kustomize/.
	@hack/kustomize.sh

.PHONY: generate
generate: packages ## Everything that is generated from the API types.
	@hack/update-codegen.sh

.PHONY: docs
docs: ## README.md and docs/ as a site with search, into _output/docs; installs Node.js if it is missing.
	@hack/docs.sh

##@ Testing

.PHONY: verify
verify: packages helm ## Generated code, import rules, format, vet, lint, chart, links, licence headers, modules.
	@hack/verify.sh

.PHONY: test-unit
test-unit: packages ## Unit and property tests, under the race detector.
	@hack/test-unit.sh

.PHONY: test-changed
test-changed: packages ## Unit tests that a change since BASE=… can reach, and the names of the others.
	@hack/test-changed.sh

.PHONY: test-integration
test-integration: packages playground ## A real kube-apiserver and etcd before our API server.
	$(PLAYGROUND) build --only etcd,helm,kube-apiserver,kube-controller-manager,kube-scheduler,kubectl
	go test -count=1 -timeout=30m ./test/integration/...

.PHONY: test-netns
test-netns: packages ## The network fabric with a real kernel, in namespaces of its own.
	@mkdir -p bin
	go test -c -tags netns -o bin/netns.test ./test/netns
	unshare --net --mount bin/netns.test -test.v -test.timeout=20m

.PHONY: test-e2e
test-e2e: packages images ## The product on two clusters, with failures injected, or GROUP=… of these tests.
	@hack/test-e2e.sh $(if $(GROUP),-groups=$(GROUP))

.PHONY: bench
bench: packages images ## Vanilla against offloaded pods, our API, storage, the tunnel: tables.
	@hack/bench.sh

##@ Clusters

.PHONY: playground-up
playground-up: packages playground ## The clusters rome and milan alone.
	$(PLAYGROUND) up rome milan --workers 1

.PHONY: playground-down
playground-down: ## Takes the clusters down; the machine is as it was.
	@if [ -x $(PLAYGROUND) ]; then $(PLAYGROUND) down; fi

##@ Helpers

.PHONY: packages
packages: ## Installs the Debian packages that are missing.
	@hack/packages.sh $(DEBIAN_PACKAGES)

.PHONY: playground
playground: ## The program that brings up clusters, into .playground/bin/.
	@mkdir -p .playground/bin
	@go build -C hack/playground -ldflags '-s -w' -o ../../$(PLAYGROUND) .

.PHONY: helm
helm: playground ## helm, into .playground/bin/.
	@$(PLAYGROUND) build --only helm

.PHONY: help
help: ## This list.
	@awk 'BEGIN {FS = ":.*## "} \
	  /^##@ / {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z0-9-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
