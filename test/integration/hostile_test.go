// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/pem"
	"fmt"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	heartbeats "liqo.io/federation/controllers/consumer/heartbeat"
	"liqo.io/federation/controllers/link/replication"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/test/hostile"
	"liqo.io/federation/test/integration/framework"
)

const (
	// maxHostileDelay is the time by which the status of another provider may be copied later while one attacks.
	maxHostileDelay = time.Second
	// maxHostileMemory is the memory in bytes that the controllers may use in addition while a provider attacks.
	maxHostileMemory = 256 << 20
)

// A provider attacks with the responses of its API server. Offers of another provider are copied at most a second later
// than without the attack, and the memory of the process is bounded. HOSTILE sets the duration of each phase.
func TestAHostileProviderDelaysNoOther(t *testing.T) {
	duration := 20 * time.Second
	if text := os.Getenv("HOSTILE"); text != "" {
		var err error
		if duration, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	env := framework.Get(t)
	federation := fastClient(t, env.Admin)
	const attacker, other, consumer = "asti", "cuneo", "rome-of-cuneo"
	peers := remote.NewPeersWith(func(identity *remote.Identity) (*remote.Clients, error) {
		config, err := remote.Config(identity, remote.Options{Dial: (&net.Dialer{}).DialContext})
		if err != nil {
			return nil, err
		}
		return remote.NewClients(config)
	})
	runManager(t, env.Admin, func(manager ctrl.Manager) error {
		return (&replication.Replicator{Client: manager.GetClient(), Peers: peers, ClusterName: consumer}).
			SetupWithManager(manager)
	}, func(manager ctrl.Manager) error {
		return (&heartbeats.Reconciler{Peers: peers, Clock: clock.RealClock{}}).SetupWithManager(manager)
	})
	providers := map[string]*hostileServer{}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	for _, name := range []string{attacker, other} {
		makeNamespaceOf(t, env, peerOf(name), v1alpha1.RolePeer, name)
		makeNamespaceOf(t, env, tenantOf(name), v1alpha1.RoleTenant, name)
		must(t)(federation.FederationV1alpha1().ResourceRequests(peerOf(name)).Create(t.Context(),
			&v1alpha1.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Name: consumer}}, metav1.CreateOptions{}))
		providers[name] = serveProvider(t, env.Admin)
		if err := peers.Set(ctx, name, providers[name].identity(tenantOf(name))); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { peers.Remove(name) })
	}
	offers := newOfferCopies(t, federation, other)
	before := percentile(offers.measure(t, duration))

	var memory memoryPeak
	stop := memory.watch(maxHostileMemory, providers[attacker].end)
	stopWrites := writeRequests(t, federation, peerOf(attacker), consumer)
	var times []time.Duration
	for _, attack := range hostile.Attacks {
		providers[attacker].use(attack)
		times = append(times, offers.measure(t, duration/time.Duration(len(hostile.Attacks)))...)
		// Informers back off after earlier attacks.
		for end := time.Now().Add(time.Minute); providers[attacker].Sent()[attack] == 0 && time.Now().Before(end); {
			times = append(times, offers.measure(t, time.Second)...)
		}
	}
	during := percentile(times)
	stopWrites()
	sent := providers[attacker].Sent()
	providers[attacker].use("")
	stop()

	t.Logf("offers are copied after %v without and %v with an attack (p99); %d MB more memory; attacks: %v",
		before, during, memory.growth()>>20, sent)
	if during > before+maxHostileDelay {
		t.Errorf("offers are copied after %v instead of %v (p99)", during, before)
	}
	if growth := memory.growth(); growth > maxHostileMemory {
		t.Errorf("the attack took %d MB of memory, want at most %d", growth>>20, maxHostileMemory>>20)
	}
	for _, attack := range hostile.Attacks {
		if sent[attack] == 0 {
			t.Errorf("no request was attacked with %s", attack)
		}
	}
	until(t, "the former attacker to be connected again", func(ctx context.Context) (bool, error) {
		requests := federation.FederationV1alpha1().ResourceRequests(tenantOf(attacker))
		request, err := requests.Get(ctx, consumer, metav1.GetOptions{})
		return err == nil && request.Name == consumer, ignoreNotFound(err)
	})
}

// hostileServer serves a hostile provider with TLS.
type hostileServer struct {
	*hostile.Provider
	*httptest.Server

	mu   sync.Mutex
	over bool
}

// use replaces the attack, unless end was called. It closes all connections, so that watches are opened again, and
// attacked, too.
func (s *hostileServer) use(attack hostile.Attack) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.Use(attack)
		s.CloseClientConnections()
	}
}

// end ends all attacks, also later ones, so that a test fails before it exhausts the memory of the machine.
func (s *hostileServer) end() {
	s.use("")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}

// ended reports whether end was called.
func (s *hostileServer) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// serveProvider serves a provider in front of the environment's API server, until the test ends.
func serveProvider(t *testing.T, admin *rest.Config) *hostileServer {
	t.Helper()
	transport, err := rest.TransportFor(admin)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(admin.Host)
	if err != nil {
		t.Fatal(err)
	}
	provider := hostile.New(target, transport)
	s := &hostileServer{Provider: provider, Server: httptest.NewTLSServer(provider)}
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// identity returns an identity at the provider.
func (s *hostileServer) identity(namespace string) *remote.Identity {
	return &remote.Identity{
		Server: s.URL, Token: "token", Namespace: namespace,
		CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
	}
}

// offerCopies changes an offer of a provider, and waits for its copy in the peer namespace.
type offerCopies struct {
	federation     versioned.Interface
	provider, name string
	changes        int64
}

func newOfferCopies(t *testing.T, federation versioned.Interface, provider string) *offerCopies {
	t.Helper()
	o := &offerCopies{federation: federation, provider: provider, name: "offer-of-" + provider}
	must(t)(federation.FederationV1alpha1().ResourceOffers(tenantOf(provider)).Create(t.Context(), &v1alpha1.ResourceOffer{
		ObjectMeta: metav1.ObjectMeta{Name: o.name},
		Spec: v1alpha1.ResourceOfferSpec{ClusterID: thatID, Resources: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourcePods: resource.MustParse("1"),
		}},
	}, metav1.CreateOptions{}))
	o.change(t)
	return o
}

// measure changes the offer for a time, and returns the times until it was copied. Changes are more than a second
// apart: the controllers write those of one provider once a second.
func (o *offerCopies) measure(t *testing.T, duration time.Duration) (times []time.Duration) {
	t.Helper()
	ticker := time.NewTicker(1100 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(duration); len(times) == 0 || time.Now().Before(end); <-ticker.C {
		times = append(times, o.change(t))
	}
	return times
}

// percentile returns the 99th percentile.
func percentile(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)*99/100]
}

func (o *offerCopies) change(t *testing.T) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	copies := o.federation.FederationV1alpha1().ResourceOffers(peerOf(o.provider))
	watch, err := copies.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + o.name})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	o.changes++
	start := time.Now()
	must(t)(o.federation.FederationV1alpha1().ResourceOffers(tenantOf(o.provider)).Patch(ctx, o.name, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"resources":{"pods":"%d"}}}`, o.changes+1), metav1.PatchOptions{}))
	for event := range watch.ResultChan() {
		if offer, ok := event.Object.(*v1alpha1.ResourceOffer); ok && offer.Spec.Resources.Pods().Value() == o.changes+1 {
			return time.Since(start)
		}
	}
	t.Fatalf("change %d of the offer was not copied within a minute", o.changes)
	return 0
}

// writeRequests changes the request to a provider every 100 ms, so that it is written to the provider, until the
// returned function is called.
func writeRequests(t *testing.T, federation versioned.Interface, namespace, name string) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	writing.Go(func() {
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for i := 1; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			_, err := federation.FederationV1alpha1().ResourceRequests(namespace).Patch(ctx, name, types.MergePatchType,
				fmt.Appendf(nil, `{"spec":{"resources":{"pods":"%d"}}}`, i), metav1.PatchOptions{})
			if err != nil && !strings.Contains(err.Error(), "context canceled") {
				t.Errorf("changing the request: %v", err)
				return
			}
		}
	})
	return func() {
		cancel()
		writing.Wait()
	}
}

// memoryPeak has the memory that this process used, in bytes: first at the call of watch, and most at its highest after
// that.
type memoryPeak struct {
	first, most uint64
}

// watch observes the memory until the returned function is called. It calls exceeded, at most once, when the memory
// has grown by more than limit bytes.
func (m *memoryPeak) watch(limit uint64, exceeded func()) (stop func()) {
	m.first = memoryInUse()
	exceeded = sync.OnceFunc(exceeded)
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		ticker := time.NewTicker(50 * time.Millisecond)
		defer ticker.Stop()
		for {
			if m.most = max(m.most, memoryInUse()); m.growth() > limit {
				exceeded()
			}
			select {
			case <-done:
				return
			case <-ticker.C:
			}
		}
	})
	return func() {
		close(done)
		watching.Wait()
	}
}

// growth returns by how many bytes the memory grew at most.
func (m *memoryPeak) growth() uint64 { return m.most - min(m.first, m.most) }

// memoryInUse returns the bytes of memory that the process has and did not release to the operating system.
func memoryInUse() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}
