// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Command volumes provisions and expands volumes that are directories. It runs on every node except fake nodes. Each
// process is responsible for the volumes on its own node, and one process is also responsible for the volumes that all
// nodes share.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// driver is the provisioner of the StorageClasses, and the name of this program in events.
const driver = "playground.liqo.io/local"

// resync bounds how long a claim without a selected node waits for another node to become responsible, if the
// responsible node is deleted or accepts no pods any more.
const resync = 15 * time.Second

func main() {
	directories := map[string]string{}
	node := flag.String("node", "", "name of the node that this program runs on")
	nodes := flag.String("nodes", "", "label selector of the nodes that run this program; all nodes if empty")
	for _, kind := range kinds {
		flag.Func(kind+"-directory", "absolute path of the directory of "+kind+" volumes", func(path string) error {
			if !filepath.IsAbs(path) {
				return fmt.Errorf("%q is not an absolute path", path)
			}
			directories[kind] = path
			return nil
		})
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *node, *nodes, directories); err != nil {
		fmt.Fprintln(os.Stderr, "local-provisioner:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, node, selector string, directories map[string]string) error {
	if node == "" || len(directories) != len(kinds) {
		return fmt.Errorf("reading flags: --node and a directory for each of %v are required", kinds)
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("reading cluster configuration: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating client: %w", err)
	}
	objects := informers.NewSharedInformerFactory(client, resync)
	nodes := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = selector }))
	p := &provisioner{node: node, nodes: nodes.Core().V1().Nodes().Lister(), directories: directories}
	claims := objects.Core().V1().PersistentVolumeClaims()
	expansion, err := newExpander(client, claims, p.owns)
	if err != nil {
		return err
	}
	// No leader election is needed: only the program on one node is responsible for a claim.
	provision := controller.NewProvisionController(ctx, client, driver, p, controller.LeaderElection(false),
		controller.Threadiness(1), controller.ResyncPeriod(resync), controller.ClaimsInformer(claims.Informer()))
	nodes.Start(ctx.Done())
	// Before nodes are cached there is no default node, and the first claims would wait for the next resync.
	nodes.WaitForCacheSync(ctx.Done())
	objects.Start(ctx.Done())
	go expansion.run(ctx)
	provision.Run(ctx)
	return nil
}
