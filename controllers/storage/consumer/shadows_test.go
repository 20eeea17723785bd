// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/remote"
	fedfake "liqo.io/federation/generated/clientset/versioned/fake"
	"liqo.io/federation/test/fakes"
)

// milanClaim returns the ShadowVolumeClaim of the user's claim on milan.
func milanClaim() *v1alpha1.ShadowVolumeClaim {
	claim := (&Provisioner{Config: &Config{ClusterID: romeID}}).shadowClaim(userClaim(), "ssd", milanID)
	claim.Namespace = milanSpace
	return claim
}

// requestsOf returns a queue with the requests that changes of ShadowVolumeClaims cause.
func requestsOf(t *testing.T, shadows *Shadows) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	t.Helper()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(queue.ShutDown)
	if err := shadows.source(newWorld(t).shadowRequests).Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	return queue
}

// expectRequest fails the test unless the queue has a request for the user's claim.
func expectRequest(t *testing.T, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	stop := context.AfterFunc(ctx, queue.ShutDown)
	defer stop()
	request, stopped := queue.Get()
	if stopped || request != dataRequest {
		t.Fatalf("requested %v, stopped %t", request, stopped)
	}
	queue.Done(request)
}

func TestClaimsAreFoundWheneverTheirProviderIsConnected(t *testing.T) {
	connect := func(t *testing.T, peers *remote.Peers, server string) {
		t.Helper()
		if err := peers.Set(t.Context(), "milan", &remote.Identity{Server: server}); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name string
		run  func(*testing.T, *Shadows, *remote.Peers)
	}{
		{"a namespace that is watched before the provider is connected",
			func(t *testing.T, shadows *Shadows, peers *remote.Peers) {
				queue := requestsOf(t, shadows)
				if err := shadows.Watch(atMilan); err != nil {
					t.Fatal(err)
				}
				connect(t, peers, "full")
				expectRequest(t, queue)
			}},
		{"a controller that starts after the watch", func(t *testing.T, shadows *Shadows, peers *remote.Peers) {
			connect(t, peers, "full")
			first := requestsOf(t, shadows)
			if err := shadows.Watch(atMilan); err != nil {
				t.Fatal(err)
			}
			expectRequest(t, first)
			expectRequest(t, requestsOf(t, shadows))
		}},
		{"a claim that was deleted between two connections", func(t *testing.T, shadows *Shadows, peers *remote.Peers) {
			connect(t, peers, "full")
			queue := requestsOf(t, shadows)
			if err := shadows.Watch(atMilan); err != nil {
				t.Fatal(err)
			}
			expectRequest(t, queue)
			connect(t, peers, "empty")
			// The connection ends when its watch is complete.
			err := wait.PollUntilContextTimeout(t.Context(), time.Microsecond, 30*time.Second, true,
				func(context.Context) (bool, error) {
					_, complete := shadows.cached(atMilan, "")
					return complete, nil
				})
			if err != nil {
				t.Fatalf("the watch of milan's claims: %v", err)
			}
			connect(t, peers, "empty again")
			expectRequest(t, queue)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			peers := remote.NewPeersWith(func(identity *remote.Identity) (*remote.Clients, error) {
				if identity.Server == "full" {
					return &remote.Clients{Federation: fedfake.NewSimpleClientset(milanClaim())}, nil
				}
				return &remote.Clients{Federation: fedfake.NewSimpleClientset()}, nil
			})
			test.run(t, NewShadows(peers), peers)
		})
	}
}

func TestProviderThatDoesNotAnswerDelaysNoOther(t *testing.T) {
	w := newWorld(t, withMilan(virtual(), local(), worker(), userClaim(selected(milanNode)))...)
	w.provision(w.provisioner())
	w.seen(func(kept *v1alpha1.ShadowVolumeClaim) bool { return kept != nil })
	fakes.React(w.milan, "*", "shadowvolumeclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("connection refused")
	})
	change(w, "shop", "data-db-0", &corev1.PersistentVolumeClaim{}, selected("worker"))
	result, err := w.provisioner().Reconcile(t.Context(), dataRequest)
	if err != nil || result.RequeueAfter != retryDelay {
		t.Errorf("got %v, %v: the claim on milan is to be deleted later", result, err)
	}
	intermediate := get(w, storageNS, volume.VolumeName(claimUID), &corev1.PersistentVolumeClaim{})
	if intermediate.Annotations[volume.AnnotationSelectedNode] != "worker" {
		t.Errorf("the intermediate claim is %+v", intermediate)
	}
}

func TestClaimThatItsProviderLostKeepsItsDataAndBacksOff(t *testing.T) {
	w := newWorld(t, withMilan(virtual(), userClaim(selected(milanNode)))...)
	p := w.provisioner()
	lose := func() {
		t.Helper()
		w.provision(p)
		w.answer(func(kept *v1alpha1.ShadowVolumeClaim) { kept.Status.Phase = v1alpha1.ShadowVolumeClaimLost })
	}
	lose()
	w.provision(p)
	if node := get(w, "shop", "data-db-0",
		&corev1.PersistentVolumeClaim{}).Annotations[volume.AnnotationSelectedNode]; node != "" {
		t.Errorf("node %s is still selected", node)
	}
	deleted := w.deletions()
	w.provision(p)
	if w.kept() != nil || *deleted != v1alpha1.VolumeDeletionRetain {
		t.Errorf("milan's claim is left or was deleted with policy %q", *deleted)
	}
	w.seen(func(kept *v1alpha1.ShadowVolumeClaim) bool { return kept == nil })
	change(w, "shop", "data-db-0", &corev1.PersistentVolumeClaim{}, func(claim *corev1.PersistentVolumeClaim) {
		claim.Annotations = map[string]string{volume.AnnotationSelectedNode: milanNode}
	})
	lose()
	writes := len(w.writes())
	result, err := p.Reconcile(t.Context(), dataRequest)
	if err != nil || result.RequeueAfter == 0 || w.kept() == nil || len(w.writes()) != writes {
		t.Errorf("got %v, %v with writes %v", result, err, w.writes()[writes:])
	}
}

func TestShadowVolumeClaimReconcilesTheClaimOfItsVolume(t *testing.T) {
	moved := types.NamespacedName{Namespace: dataDB0.Namespace, Name: "move-abcde-target"}
	for _, test := range []struct {
		name, clusterID string
		want            []reconcile.Request
	}{
		{name: "volume", clusterID: milanID, want: []reconcile.Request{{NamespacedName: moved}, dataRequest}},
		{name: "volume on another provider with the same namespace and name", clusterID: turinID,
			want: []reconcile.Request{{NamespacedName: moved}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			pv := stored("a", "ssd", "1Gi")
			pv.Spec.PersistentVolumeSource = volume.RemoteSource(
				volume.Handle{ClusterID: test.clusterID, Namespace: milanSpace, Claim: shadowName})
			w := newWorld(t, withMilan(pv)...)
			// A move created the ShadowVolumeClaim for the claim of its receiver.
			kept := milanClaim()
			kept.Annotations[volume.AnnotationOriginClaim] = moved.Name
			if diff := cmp.Diff(test.want, w.shadowRequests(t.Context(), shadow{"milan", kept})); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}
