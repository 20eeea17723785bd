// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package saga

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/controllers/storage/consumer"
	"liqo.io/federation/controllers/storage/provider"
	"liqo.io/federation/generated/clientset/versioned"
)

const (
	storageNamespace = "liqo-storage"
	remoteNamespace  = "shop-rome"
	virtualNode      = "liqo-milan"
	// localPart is the prefix of the resources that controllers publish for the scheduler, such as
	// csidrivers. They are not deleted with claims.
	localPart = "csi"
)

var (
	shadowClaims    = v1alpha1.SchemeGroupVersion.WithResource("shadowvolumeclaims")
	virtualVolumes  = v1alpha1.SchemeGroupVersion.WithResource("virtualvolumes")
	virtualNodes    = v1alpha1.SchemeGroupVersion.WithResource("virtualnodes")
	namespaceMaps   = v1alpha1.SchemeGroupVersion.WithResource("namespacemaps")
	romeID, milanID = string(uid("1")), string(uid("2"))
)

// cluster is one cluster with the process of its storage controllers, which is restarted whenever
// it ends.
type cluster struct {
	controlPlane
	name string
	// local is the URL of its API for its own controllers, and remote the URL for its consumer.
	local, remote string
	// ended is called after a process was killed, and before the next one starts. nil does nothing.
	ended func()
	journal
}

// storageWorld is two clusters. Rome is the consumer, and milan stores its data.
type storageWorld struct {
	*testing.T
	rome, milan *cluster
	// cut is true while rome cannot reach milan.
	cut atomic.Bool
}

// life is one process of a cluster, and the transport of its clients, which kills it at a write.
type life struct {
	cluster *cluster
	// test is the context of the test, and ctx the context of the process, which ends when the
	// process is killed.
	test, ctx context.Context
	die       context.CancelFunc
	cut       *atomic.Bool
}

// serve runs a manager until its process ends. At the end of the test it waits until the manager
// has started, because a manager that is stopped before that never returns.
func (l *life) serve(manager ctrl.Manager) error {
	go func() {
		select {
		case <-l.ctx.Done():
		case <-l.test.Done():
			<-manager.Elected()
			l.die()
		}
	}()
	return manager.Start(l.ctx)
}

// RoundTrip sends a request. It returns errGone if the process is killed at this request, or if the
// clusters are partitioned.
func (l *life) RoundTrip(r *http.Request) (*http.Response, error) {
	if l.ctx.Err() != nil || l.cut != nil && l.cut.Load() {
		return nil, errGone
	}
	return l.cluster.roundTrip(l.die, r)
}

// connection returns the configuration of a client of this process. Its requests fail while cut is
// true.
func (l *life) connection(server string, cut *atomic.Bool) *rest.Config {
	transport := *l
	transport.cut = cut
	return &rest.Config{Host: server, Transport: &transport, QPS: -1}
}

// manager returns a manager for the storage controllers of a cluster.
func (l *life) manager(c *cluster) (ctrl.Manager, error) {
	manager, err := kit.NewManager(l.connection(c.local, nil), logr.Discard())
	if err != nil {
		return nil, err
	}
	return manager, kit.IndexVolumes(l.ctx, manager)
}

// run runs processes one after the other until the context ends.
func (c *cluster) run(ctx context.Context, start func(*life) error) {
	for ctx.Err() == nil {
		lifetime, die := context.WithCancel(context.WithoutCancel(ctx))
		err := start(&life{cluster: c, test: ctx, ctx: lifetime, die: die})
		die()
		c.note("the process has ended: %v", err)
		if ctx.Err() == nil && c.ended != nil {
			c.ended()
			c.ended = nil
		}
	}
}

// runConsumer runs the storage controllers of rome.
func (w *storageWorld) runConsumer(l *life) error {
	manager, err := l.manager(w.rome)
	if err != nil {
		return err
	}
	if err := consumer.Prepare(l.ctx, manager); err != nil {
		return err
	}
	published, err := consumer.NewPublished(manager, storageNamespace)
	if err != nil {
		return err
	}
	peers := remote.NewPeersWith(func(*remote.Identity) (*remote.Clients, error) {
		federation, err := versioned.NewForConfig(l.connection(w.milan.remote, &w.cut))
		return &remote.Clients{Federation: federation}, err
	})
	shared := &consumer.Config{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Events: &record.FakeRecorder{},
		Shadows:   consumer.NewShadows(peers),
		ClusterID: romeID, ClusterName: "rome", Namespace: storageNamespace,
	}
	capacity := &consumer.Capacity{Config: shared, Published: published, Clock: clock.RealClock{}}
	for _, controller := range []interface{ SetupWithManager(ctrl.Manager) error }{
		capacity, &consumer.Provisioner{Config: shared, Capacity: capacity}, &consumer.VirtualVolumes{Config: shared},
		&consumer.Expander{Config: shared, Clock: clock.RealClock{}}, &consumer.Releaser{Config: shared},
	} {
		if err := controller.SetupWithManager(manager); err != nil {
			return err
		}
	}
	var connecting sync.WaitGroup
	defer connecting.Wait()
	connecting.Go(func() {
		// An error is ignored, because the next process connects again.
		_ = peers.Set(l.ctx, "milan", &remote.Identity{Namespace: "liqo-tenant-rome"})
	})
	return l.serve(manager)
}

// runProvider runs the storage controller of milan.
func (w *storageWorld) runProvider(l *life) error {
	manager, err := l.manager(w.milan)
	if err != nil {
		return err
	}
	reconciler := &provider.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Events: &record.FakeRecorder{}, Clock: clock.RealClock{},
	}
	if err := reconciler.SetupWithManager(manager); err != nil {
		return err
	}
	return l.serve(manager)
}

// newStorageWorld returns both clusters. Milan's class has this binding mode, and rome's virtual
// class this reclaim policy.
func newStorageWorld(t *testing.T, mode storagev1.VolumeBindingMode,
	policy corev1.PersistentVolumeReclaimPolicy) *storageWorld {
	t.Helper()
	w := &storageWorld{T: t}
	for _, c := range []**cluster{&w.rome, &w.milan} {
		*c = &cluster{controlPlane: controlPlane{store: newStore(), prefers: []string{virtualNode, "worker"}}}
		(*c).store.admit = admitClaim
		own := httptest.NewServer(&apiServer{(*c).store, func(key, string) bool { return true }})
		peers := httptest.NewServer(&apiServer{(*c).store, func(k key, subresource string) bool {
			return k.resource == shadowClaims && k.namespace == remoteNamespace && subresource == ""
		}})
		(*c).local, (*c).remote = own.URL, peers.URL
		t.Cleanup(own.Close)
		t.Cleanup(peers.Close)
		w.add(*c, key{nodes, "", "worker"},
			&corev1.Node{Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: "1"}}})
		w.add(*c, key{classes, "", "ssd"}, &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{
				Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
			Provisioner: driver, VolumeBindingMode: &mode, AllowVolumeExpansion: ptr.To(true),
		})
	}
	w.rome.name, w.milan.name = "rome", "milan"
	for _, namespace := range []string{"shop", storageNamespace, naming.PeerNamespace("milan")} {
		w.add(w.rome, key{namespaces, "", namespace}, &corev1.Namespace{})
	}
	w.add(w.rome, key{classes, "", "liqo"}, &storagev1.StorageClass{
		Provisioner: v1alpha1.StorageProvisioner, VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
		ReclaimPolicy: &policy, AllowVolumeExpansion: ptr.To(true),
	})
	w.add(w.rome, key{foreignClusters, "", "milan"}, &v1alpha1.ForeignCluster{
		Spec: v1alpha1.ForeignClusterSpec{ClusterID: milanID, Outgoing: v1alpha1.PeeringEnabled},
	})
	w.add(w.rome, key{virtualNodes, naming.PeerNamespace("milan"), "milan"}, &v1alpha1.VirtualNode{
		Spec:   v1alpha1.VirtualNodeSpec{ClusterID: milanID, NodeName: virtualNode, OfferName: "milan"},
		Status: v1alpha1.VirtualNodeStatus{StorageClasses: []string{"ssd"}},
	})
	w.add(w.rome, key{nodes, "", virtualNode}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
		v1alpha1.LabelType: v1alpha1.TypeVirtualNode, v1alpha1.LabelRemoteClusterID: milanID,
	}}})
	w.add(w.rome, key{namespaceMaps, naming.PeerNamespace("milan"), "rome"}, &v1alpha1.NamespaceMap{
		Spec: v1alpha1.NamespaceMapSpec{Namespaces: []v1alpha1.NamespaceMapping{{Name: "shop", RemoteName: remoteNamespace}}},
		Status: v1alpha1.NamespaceMapStatus{Namespaces: []v1alpha1.NamespaceMappingStatus{
			{Name: "shop", RemoteName: remoteNamespace, Phase: v1alpha1.NamespaceMappingReady},
		}},
	})
	w.add(w.milan, key{namespaces, "", remoteNamespace}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Labels: map[string]string{
			v1alpha1.LabelRole: v1alpha1.RoleRemoteNamespace, v1alpha1.LabelForeignCluster: "rome",
			v1alpha1.LabelOrigin: romeID, v1alpha1.LabelDestination: milanID,
		},
		Annotations: map[string]string{v1alpha1.AnnotationOriginNamespace: "shop"},
	}})
	return w
}

func (w *storageWorld) add(c *cluster, k key, o object) {
	w.Helper()
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	if _, err := c.store.create(k, o); err != nil {
		w.Fatal(err)
	}
}

// start runs both clusters until the test ends.
func (w *storageWorld) start() {
	ctx, stop := context.WithCancel(context.WithoutCancel(w.Context()))
	var running sync.WaitGroup
	for c, start := range map[*cluster]func(*life) error{w.rome: w.runConsumer, w.milan: w.runProvider} {
		running.Go(func() { c.controlPlane.run(ctx) })
		running.Go(func() { c.run(ctx, start) })
	}
	w.Cleanup(func() {
		stop()
		running.Wait()
		if w.Failed() {
			w.dump()
		}
	})
}

// dump logs the objects and the writes of both clusters, if the test has failed.
func (w *storageWorld) dump() {
	for _, c := range []*cluster{w.rome, w.milan} {
		c.store.mu.Lock()
		for _, k := range c.store.keys(func(key) bool { return true }) {
			fields := content(c.store.objects[k])
			w.Logf("%s has %s: %v %v", c.name, k, fields["metadata"], fields["status"])
		}
		c.store.mu.Unlock()
		c.log.Lock()
		w.Logf("%s wrote:\n%s", c.name, strings.Join(c.log.lines, "\n"))
		c.log.Unlock()
	}
}
