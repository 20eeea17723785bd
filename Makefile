# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0

# Debian packages that are required in addition to Go and make: programs that the playground's nodes run, gcc for
# the race detector, jq and curl for the demo.
DEBIAN_PACKAGES := acl ca-certificates conntrack curl gcc git ipset iptables iproute2 jq libc6-dev nftables protobuf-compiler rsync runc

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help

# All builds, of Kubernetes too, have the same flags, so that they share the build cache.
export CGO_ENABLED := 0
export GOFLAGS     := -trimpath -buildvcs=false

PROGRAMS := ./apiserver/cmd/federation-apiserver ./controllers/cmd/federation-controller-manager ./controllers/cmd/federation-virtual-kubelet ./controllers/cmd/federation-mover \
	./netagent/cmd/federation-gateway ./netagent/cmd/federation-route

PLAYGROUND := .playground/bin/playground

##@ The two commands

.PHONY: demo
demo: packages ## Peer two real clusters, and run pods of one on the other; CLUSTERS=3 adds a third in another region.
	@hack/demo.sh

.PHONY: test
test: ## Run the checks and tests that a change must pass: verify, unit, netns, integration, e2e without long steps.
	@for part in verify '--jobs=3 test-integration test-unit test-netns' 'test-e2e SHORT=1'; do \
	  start=$$SECONDS; \
	  $(MAKE) $$part; \
	  echo "make $$part: $$((SECONDS - start)) seconds"; \
	done

# The parts of the long tests. A part takes at most an hour on 2 cores.
PART ?= e2e properties layouts three chaos storage moves demo bench

.PHONY: test-full
test-full: packages images samples ## Run the long tests; PART="chaos moves" selects parts, RESUME=1 skips what has succeeded.
	@set -e; for part in $(PART); do hack/test-full.sh $$part; done

##@ Building

.PHONY: build
build: ## Build the programs into bin/.
	@mkdir -p bin
	go build -ldflags '-s -w' -o bin/ $(PROGRAMS)

.PHONY: images
images: build playground ## Pack the images of the programs into _output/images/*.tar.
	@hack/images.sh

.PHONY: samples
samples: playground ## Pack the images of the sample applications into _output/samples/*.tar.
	@hack/samples.sh

.PHONY: chart
chart: helm ## Package the Helm chart into _output/.
	.playground/bin/helm package artifacts/chart --destination _output

.PHONY: kustomize
kustomize: helm ## Render the chart as a kustomize base into _output/kustomize/.
	@hack/kustomize.sh

.PHONY: generate
generate: packages ## Generate code and docs/api-reference.md from the API types.
	@hack/update-codegen.sh

.PHONY: docs
docs: ## Render the pages as a site with search into _output/docs/; installs Node.js if it is missing.
	@hack/docs.sh

##@ Testing

.PHONY: verify
verify: packages helm ## Check generated code, imports, format, vet, lint, chart, links, licence headers, modules.
	@hack/verify.sh

.PHONY: vulncheck
vulncheck: packages ## Report known vulnerabilities in code that the programs call; needs access to vuln.go.dev.
	@hack/vulncheck.sh

.PHONY: test-unit
test-unit: packages ## Run unit and property tests under the race detector.
	@hack/test-unit.sh

.PHONY: test-changed
test-changed: packages ## Run the unit tests that changes since commit BASE can affect, and list further such tests.
	@hack/test-changed.sh

.PHONY: test-integration
test-integration: packages playground ## Test the API server and controllers with a real kube-apiserver and etcd.
	$(PLAYGROUND) build --only etcd,helm,kube-apiserver,kube-controller-manager,kube-scheduler,kubectl
	@hack/gotest.sh integration standard-quiet -count=1 -timeout=50m ./test/integration/...

.PHONY: test-netns
test-netns: packages ## Test the network agents with a real kernel, in network namespaces.
	@mkdir -p bin
	go test -c -tags netns -o bin/netns.test ./test/netns
	@hack/gotest.sh netns standard-verbose --raw-command \
	  go tool test2json -t -p ./test/netns unshare --net --mount bin/netns.test -test.v=test2json -test.timeout=20m

.PHONY: test-e2e
test-e2e: packages images ## Test peered clusters, with injected failures; GROUP=network,storage selects groups, SHORT=1 omits long steps.
	@hack/test-e2e.sh $(if $(GROUP),-groups=$(GROUP)) $(if $(SHORT),-short)

.PHONY: bench
bench: packages images ## Measure offloaded pods, the API, volumes and the tunnel in comparison with plain Kubernetes.
	@hack/bench.sh

##@ Clusters

.PHONY: playground-up
playground-up: packages playground ## Start the clusters rome and milan, without Liqo Federation.
	$(PLAYGROUND) up rome milan --workers 1

.PHONY: playground-down
playground-down: ## Delete the clusters, and undo all changes of this machine.
	@if [ -x $(PLAYGROUND) ]; then $(PLAYGROUND) down; fi

##@ Helpers

.PHONY: packages
packages: ## Install missing Debian packages.
	@hack/packages.sh $(DEBIAN_PACKAGES)

.PHONY: playground
playground: ## Build the program that starts clusters into .playground/bin/.
	@mkdir -p .playground/bin
	@go build -C hack/playground -ldflags '-s -w' -o ../../$(PLAYGROUND) .

.PHONY: helm
helm: playground ## Build helm into .playground/bin/.
	@$(PLAYGROUND) build --only helm

.PHONY: help
help: ## Print this list.
	@awk 'BEGIN {FS = ":.*## "} \
	  /^##@ / {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z0-9-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
