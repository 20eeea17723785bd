// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	corev1listers "k8s.io/client-go/listers/core/v1"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
	"liqo.io/federation/controllers/virtualkubelet/remotens"
	"liqo.io/federation/controllers/virtualkubelet/translate"
	fedfake "liqo.io/federation/generated/clientset/versioned/fake"
	"liqo.io/federation/test/fakes"
)

// keeper is a controller with one pod that mounts a token, and its shadow pod. Tests fill the cache of Secrets by see.
type keeper struct {
	*Controller
	pod             *corev1.Pod
	shadow          *v1alpha1.ShadowPod
	remoteNamespace *remotens.Namespace
	clock           *clocktesting.FakeClock
	provider        *kubefake.Clientset
	events          *record.FakeRecorder
	// requested has the token requests, and refusal is the error of further ones.
	requested []authenticationv1.TokenRequestSpec
	refusal   error
	allowed   bool
}

func newKeeper(t *testing.T) *keeper {
	t.Helper()
	to := translate.Destination{
		OriginID:      "rome",
		DestinationID: "milan",
		NodeName:      "liqo-milan",
		ConsumerAPI:   translate.ConsumerAPI{Host: "192.0.2.7", Port: "6443"},
	}
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "demo", Name: "web", UID: "pod", CreationTimestamp: metav1.NewTime(now),
		},
		Spec: corev1.PodSpec{
			ServiceAccountName: "robot",
			Volumes: []corev1.Volume{{Name: "api", VolumeSource: corev1.VolumeSource{
				Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
					{
						ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
							Path: "token", ExpirationSeconds: ptr.To[int64](1000),
						},
					},
				}},
			}}},
		},
	}
	own, err := NewMetrics(func(metrics.Registerable) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	k := &keeper{
		pod:      pod,
		shadow:   translate.ShadowPod(pod, "demo-rome", to, nil),
		clock:    clocktesting.NewFakeClock(now),
		provider: fakes.Followed(kubefake.NewClientset()),
		events:   record.NewFakeRecorder(10),
		allowed:  true,
		remoteNamespace: &remotens.Namespace{
			Local:  "demo",
			Remote: "demo-rome",
			Tokens: cache.NewSharedIndexInformer(nil, &metav1.PartialObjectMetadata{}, 0, cache.Indexers{}),
		},
	}
	k.shadow.UID = "shadow"
	local := fakes.Followed(kubefake.NewClientset())
	fakes.React(
		local,
		"create",
		"serviceaccounts/token",
		func(action clienttesting.Action) (bool, runtime.Object, error) {
			request := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenRequest).DeepCopy()
			k.requested = append(k.requested, request.Spec)
			if k.refusal != nil {
				return true, nil, k.refusal
			}
			request.Status = authenticationv1.TokenRequestStatus{
				Token: fmt.Sprintf("token %d", len(k.requested)),
				ExpirationTimestamp: metav1.NewTime(
					k.clock.Now().Add(time.Duration(*request.Spec.ExpirationSeconds) * time.Second),
				),
			}
			return true, request, nil
		},
	)
	k.Controller = &Controller{Config: Config{
		Patch:    func() *v1alpha1.OffloadingPatch { return nil },
		NodeName: "liqo-milan", Provider: "milan", To: to, Local: local, Remote: remotens.Clients{Core: k.provider},
		Recorder: k.events, Metrics: own, Clock: k.clock, APIAccessAllowed: func() bool { return k.allowed },
	}}
	k.queue = k.newQueue()
	t.Cleanup(k.queue.ShutDown)
	return k
}

// keep reconciles the tokens once, and returns the number of token requests.
func (k *keeper) keep(t *testing.T) int {
	t.Helper()
	before := len(k.requested)
	err := k.refreshTokens(t.Context(), cache.MetaObjectToName(k.pod), k.pod, k.shadow, k.remoteNamespace)
	if !errors.Is(err, k.refusal) {
		t.Fatal(err)
	}
	return len(k.requested) - before
}

// see copies the Secret from the provider to the cache, and returns it.
func (k *keeper) see(t *testing.T) *corev1.Secret {
	t.Helper()
	secret, err := k.provider.CoreV1().Secrets("demo-rome").Get(context.Background(), "tokens-pod", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	trimmed, err := remotens.TrimTokenSecret(&metav1.PartialObjectMetadata{ObjectMeta: secret.ObjectMeta})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.remoteNamespace.Tokens.GetStore().Add(trimmed); err != nil {
		t.Fatal(err)
	}
	return secret
}

func TestPodsAreEnqueuedWhenAPIAccessIsAllowed(t *testing.T) {
	k := newKeeper(t)
	k.Lister = corev1listers.NewPodLister(kittest.Indexer(k.pod))
	k.Namespaces = fixed{"demo": {}}
	for _, allowed := range []bool{true, false, true} {
		k.allowed = allowed
		k.Refresh()
		k.Refresh()
		if n := k.queue.Len(); n != 1 {
			t.Fatalf("%d pods are enqueued, API access allowed: %t", n, allowed)
		}
		key, _ := k.queue.Get()
		k.queue.Done(key)
	}
}

func TestTokensAreDeliveredAndRenewedInTime(t *testing.T) {
	k := newKeeper(t)
	if n := k.keep(t); n != 1 {
		t.Fatalf("%d tokens were requested", n)
	}
	want := authenticationv1.TokenRequestSpec{
		ExpirationSeconds: ptr.To[int64](1000),
		BoundObjectRef: &authenticationv1.BoundObjectReference{
			Kind: "Pod", APIVersion: "v1", Name: "web", UID: "pod",
		},
	}
	if diff := cmp.Diff(want, k.requested[0]); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if n := k.keep(t); n != 0 {
		t.Error("a second token was requested before the cache had the first")
	}
	k.Audience = "https://kubernetes.default.svc"
	secret := k.see(t)
	if string(secret.Data["token-0-0"]) != "token 1" || translate.TokenOwner(secret).UID != "shadow" {
		t.Errorf("Secret %+v", secret)
	}
	k.clock.Step(719 * time.Second)
	if n := k.keep(t); n != 0 {
		t.Error("the token was renewed too early")
	}
	k.clock.Step(81 * time.Second)
	if n := k.keep(t); n != 1 {
		t.Error("the token was not renewed after four fifths of its lifetime")
	}
	if secret = k.see(t); string(secret.Data["token-0-0"]) != "token 2" {
		t.Errorf("the Secret has %q", secret.Data)
	}
	if diff := cmp.Diff([]string{k.Audience}, k.requested[1].Audiences); diff != "" {
		t.Errorf("Secret (-want +got):\n%s", diff)
	}
	var requests []string
	for _, action := range k.provider.Actions() {
		if action.GetVerb() != "get" {
			requests = append(requests, action.GetVerb()+" "+action.GetResource().Resource)
		}
	}
	if diff := cmp.Diff([]string{"create secrets", "update secrets"}, requests); diff != "" {
		t.Errorf("requests to the provider (-want +got):\n%s", diff)
	}
	// A virtual kubelet that was restarted reads the time of the renewal from the Secret.
	k.states.drop(cache.MetaObjectToName(k.pod))
	if n := k.keep(t); n != 0 {
		t.Error("a restart renewed it")
	}
}

func TestDeletedTokensAreRestoredAtABoundedRate(t *testing.T) {
	k := newKeeper(t)
	k.keep(t)
	secret := k.see(t)
	take := func() {
		t.Helper()
		if err := k.provider.CoreV1().
			Secrets("demo-rome").
			Delete(t.Context(), secret.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := k.remoteNamespace.Tokens.GetStore().Delete(secret); err != nil {
			t.Fatal(err)
		}
	}
	take()
	if n := k.keep(t); n != 0 {
		t.Error("tokens were delivered again before tokenPause")
	}
	k.clock.Step(tokenPause)
	if n := k.keep(t); n != 1 {
		t.Error("tokens were not delivered again")
	}
	k.see(t)
	// The provider deletes the shadow pod repeatedly, so that its UID changes.
	for _, uid := range []types.UID{"second", "third", "next"} {
		k.shadow.UID = uid
		if n := k.keep(t); n != 0 {
			t.Errorf("shadow pod %s caused %d tokens before tokenPause", uid, n)
		}
	}
	k.clock.Step(tokenPause)
	if n := k.keep(t); n != 1 || translate.TokenOwner(k.see(t)).UID != "next" {
		t.Errorf("%d tokens were requested, and the Secret belongs to %v", n, translate.TokenOwner(k.see(t)))
	}
	// Another pod of the same name gets tokens of its own.
	k.pod.UID, k.shadow.UID = "another", "last"
	if n := k.keep(t); n != 1 {
		t.Errorf("%d tokens were requested another pod", n)
	}
}

func TestRefusedDeliveriesCauseFewTokens(t *testing.T) {
	k := newKeeper(t)
	refused := apierrors.NewForbidden(corev1.Resource("secrets"), "tokens-pod", errors.New("no"))
	fakes.React(
		k.provider,
		"create",
		"secrets",
		func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, refused },
	)
	for range 3 {
		k.shadow.UID += "x"
		if err := k.refreshTokens(
			t.Context(),
			cache.MetaObjectToName(k.pod),
			k.pod,
			k.shadow,
			k.remoteNamespace,
		); err != nil &&
			!apierrors.IsForbidden(err) {
			t.Fatal(err)
		}
	}
	if len(k.requested) != 1 {
		t.Errorf("%d tokens were requested without a pause", len(k.requested))
	}
	k.clock.Step(deliveryPause)
	if err := k.refreshTokens(
		t.Context(),
		cache.MetaObjectToName(k.pod),
		k.pod,
		k.shadow,
		k.remoteNamespace,
	); !apierrors.IsForbidden(err) ||
		len(k.requested) != 2 {
		t.Errorf("no retry: %d tokens, %v", len(k.requested), err)
	}
}

func TestSecretOfAnotherOwnerIsNotChanged(t *testing.T) {
	k := newKeeper(t)
	remoteAddress := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo-rome", Name: "tokens-pod"},
		Data:       map[string][]byte{"a": {1}},
	}
	if err := k.provider.Tracker().Add(remoteAddress); err != nil {
		t.Fatal(err)
	}
	k.clock.Step(tokenGrace)
	if err := k.refreshTokens(
		t.Context(),
		cache.MetaObjectToName(k.pod),
		k.pod,
		k.shadow,
		k.remoteNamespace,
	); !apierrors.IsAlreadyExists(
		err,
	) {
		t.Errorf("got %v", err)
	}
	now, err := k.provider.CoreV1().Secrets("demo-rome").Get(t.Context(), "tokens-pod", metav1.GetOptions{})
	if err != nil || cmp.Diff(remoteAddress.Data, now.Data) != "" {
		t.Errorf("data %v, %v", now.Data, err)
	}
	if event := <-k.events.Events; !strings.Contains(event, ReasonTokenRefused) || strings.Contains(event, "token 1") {
		t.Errorf("event %q", event)
	}
}

func TestTerminatingPodKeepsItsTokens(t *testing.T) {
	k := newKeeper(t)
	federation := fedfake.NewSimpleClientset()
	fakes.React(
		federation,
		"delete",
		"shadowpods",
		func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, nil },
	)
	partial := metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme())
	fakes.React(k.provider, "create", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		made := action.(clienttesting.CreateAction).GetObject().(*corev1.Secret)
		return false, nil, partial.Tracker().Create(action.GetResource(), &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: made.ObjectMeta,
		}, made.Namespace)
	})
	k.Remote.Federation, k.Remote.Metadata, k.Reachable = federation, partial, func() bool { return true }
	seen, synced := make(chan cache.ObjectName, 10), make(chan string, 1)
	watched, err := remotens.Start(
		t.Context(),
		k.Remote,
		v1alpha1.NamespaceMapping{Name: "demo", RemoteName: "demo-rome"},
		k.To,
		remotens.Events{
			Shadow: func(cache.ObjectName) {}, Pod: func(cache.ObjectName, *translate.RemotePod) {},
			Tokens: func(key cache.ObjectName) { seen <- key }, Synced: func(name string) { synced <- name },
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	<-synced
	key, going := cache.MetaObjectToName(k.pod), k.pod.DeepCopy()
	going.DeletionTimestamp = &metav1.Time{Time: k.clock.Now()}
	if err := k.create(t.Context(), key, k.pod, watched); err != nil {
		t.Fatal(err)
	}
	if of := <-seen; of != key || len(k.requested) != 1 {
		t.Fatalf("%d tokens were requested, the Secret belongs to %s", len(k.requested), of)
	}
	for _, pass := range []struct {
		after     time.Duration
		requested int
	}{{0, 1}, {700 * time.Second, 1}, {100 * time.Second, 2}} {
		k.clock.Step(pass.after)
		if err := k.remove(
			t.Context(),
			key,
			going,
			remotens.State{Offloaded: true, Ready: true, Namespace: watched},
		); err != nil {
			t.Fatal(err)
		}
		if len(k.requested) != pass.requested {
			t.Errorf("%s later %d tokens were requested, want %d", pass.after, len(k.requested), pass.requested)
		}
	}
}

func TestUnusedTokensAreNotDelivered(t *testing.T) {
	for name, change := range map[string]func(*keeper){
		"API access disabled for the node": func(k *keeper) { k.allowed = false },
		"API access disabled for the pod": func(k *keeper) {
			k.pod.Annotations = map[string]string{v1alpha1.AnnotationAPIAccess: "Disabled"}
		},
		"no address of the API server": func(k *keeper) { k.To.ConsumerAPI = translate.ConsumerAPI{} },
		"no watch of Secrets":          func(k *keeper) { k.remoteNamespace.Tokens = nil },
		"pod without token volumes":    func(k *keeper) { k.pod.Spec.Volumes = nil },
		"shadow pod without a token Secret": func(k *keeper) {
			delete(k.shadow.Annotations, v1alpha1.AnnotationTokenSecret)
		},
		"annotation set by the provider": func(k *keeper) {
			k.allowed = false
			k.shadow.Annotations[v1alpha1.AnnotationTokenSecret] = "x"
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKeeper(t)
			change(k)
			if n := k.keep(t); n != 0 {
				t.Errorf("%d tokens were requested", n)
			}
		})
	}
}

func TestRefusedTokensAreReported(t *testing.T) {
	k := newKeeper(t)
	k.refusal = apierrors.NewForbidden(corev1.Resource("serviceaccounts"), "robot", errors.New("not on this node"))
	if n := k.keep(t); n != 1 || len(k.events.Events) != 0 {
		t.Errorf("%d tokens were requested, and %d events", n, len(k.events.Events))
	}
	refusal := k.refusal
	k.refusal = nil
	if n := k.keep(t); n != 0 {
		t.Error("a token of the refused account was requested before accountPause")
	}
	k.refusal = refusal
	k.clock.Step(tokenGrace)
	k.keep(t)
	if event := <-k.events.Events; !strings.Contains(event, ReasonTokenRefused) ||
		!strings.Contains(event, "not on this node") {
		t.Errorf("event %q", event)
	}
	k.refusal = nil
	k.clock.Step(accountPause)
	if n := k.keep(t); n != 1 {
		t.Error("the token request was not retried")
	}
}
