// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/placement"
	"liqo.io/federation/apiserver/volume"
)

const (
	milanID = "3f1ad3a5-3c5c-4b8e-9a6e-0b9d6c1f7a11"
	turinID = "9a4b0a8e-5a3e-4a53-8f2e-6b1f1f1f2c22"
)

// provider returns a provider that offers storage, with one virtual node.
func provider(name, id string, classes ...string) placement.Provider {
	return placement.Provider{
		Cluster: &v1alpha1.ForeignCluster{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1alpha1.ForeignClusterSpec{ClusterID: id, Outgoing: v1alpha1.PeeringEnabled,
				Networking: v1alpha1.NetworkingTunnel},
			Status: v1alpha1.ForeignClusterStatus{Networking: v1alpha1.PeeringEstablished},
		},
		VirtualNodes: []*v1alpha1.VirtualNode{{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "liqo-peer-" + name},
			Spec: v1alpha1.VirtualNodeSpec{ClusterID: id, NodeName: "liqo-" + name,
				Labels: map[string]string{"region": name}},
			Status: v1alpha1.VirtualNodeStatus{
				StorageClasses: classes,
				Storage:        corev1.ResourceList{corev1.ResourceRequestsStorage: resource.MustParse("10Gi")},
				Conditions:     []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}},
			},
		}},
	}
}

func offloadedTo(names ...string) []v1alpha1.OffloadedCluster {
	var clusters []v1alpha1.OffloadedCluster
	for _, name := range names {
		clusters = append(clusters, v1alpha1.OffloadedCluster{Name: name, Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionOffloadingRequired, Status: metav1.ConditionTrue},
			{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue},
		}})
	}
	return clusters
}

// movable returns a valid request to move a claim of 4Gi from node worker-1 of the local cluster to
// provider milan. One pod of a StatefulSet mounts the claim.
func movable() *Request {
	owner := metav1.OwnerReference{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "StatefulSet", Name: "db",
		Controller: ptr.To(true)}
	hostname := func(name string) map[string]string { return map[string]string{corev1.LabelHostname: name} }
	return &Request{
		Spec: v1alpha1.MoveSpec{
			Target: v1alpha1.MoveTarget{ClusterName: "milan"}, Strategy: v1alpha1.MoveOnline, Verify: v1alpha1.VerifyChanged,
		},
		Volume: &v1alpha1.VirtualVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "data-db-0", Namespace: "shop"},
			Status: v1alpha1.VirtualVolumeStatus{
				Phase: v1alpha1.VirtualVolumeBound, Location: &v1alpha1.VolumeLocation{StorageClassName: "local",
					VolumeName: "pv-1"},
			},
		},
		Claim: &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: "data-db-0", Namespace: "shop", UID: "c",
				Finalizers: []string{"kubernetes.io/pvc-protection"}},
			Spec: corev1.PersistentVolumeClaimSpec{
				VolumeName: "pv-1", StorageClassName: ptr.To("liqo"),
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: size("3Gi")},
			},
			Status: corev1.PersistentVolumeClaimStatus{
				Phase: corev1.ClaimBound, Capacity: size("4Gi"),
			},
		},
		PersistentVolume: &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv-1", Annotations: map[string]string{volume.AnnotationStorageClass: "local"}},
			Spec: corev1.PersistentVolumeSpec{
				ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "data-db-0", UID: "c"},
				NodeAffinity: &corev1.VolumeNodeAffinity{Required: selector(corev1.NodeSelectorRequirement{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"worker-1"},
				})},
			},
		},
		Classes: []*storagev1.StorageClass{
			{ObjectMeta: metav1.ObjectMeta{Name: "liqo"}, Provisioner: v1alpha1.StorageProvisioner},
			{ObjectMeta: metav1.ObjectMeta{Name: "local", Annotations: map[string]string{defaultClass: "true"}},
				Provisioner: "example.com/local"},
			{ObjectMeta: metav1.ObjectMeta{Name: "ssd"}, Provisioner: "example.com/ssd"},
			{ObjectMeta: metav1.ObjectMeta{Name: "manual"}, Provisioner: noProvisioner},
			{ObjectMeta: metav1.ObjectMeta{Name: "secret"}, Provisioner: "example.com/s",
				Parameters: map[string]string{"name": "${pvc.name}"}},
		},
		Pods: []*corev1.Pod{{
			ObjectMeta: metav1.ObjectMeta{Name: "db-0", Namespace: "shop", Labels: map[string]string{"app": "db"},
				OwnerReferences: []metav1.OwnerReference{owner}},
			Spec: corev1.PodSpec{NodeName: "worker-1", Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-db-0"},
			}}}},
		}},
		Offloading: &v1alpha1.NamespaceOffloading{
			Spec:   v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: v1alpha1.LocalAndRemote},
			Status: v1alpha1.NamespaceOffloadingStatus{Clusters: offloadedTo("milan", "turin")},
		},
		Providers: []placement.Provider{provider("milan", milanID, "fast", "slow"), provider("turin", turinID, "disk")},
		Nodes: []*corev1.Node{
			{ObjectMeta: metav1.ObjectMeta{Name: "worker-1", Labels: hostname("worker-1")}},
			{ObjectMeta: metav1.ObjectMeta{Name: "worker-2", Labels: hostname("worker-2")}},
		},
	}
}

// stored changes a request so that provider milan stores the data.
func stored(r *Request) {
	r.PersistentVolume.Annotations = nil
	r.PersistentVolume.Spec.PersistentVolumeSource = volume.RemoteSource(volume.Handle{ClusterID: milanID,
		Namespace: "shop-rome", Claim: "data-1"})
	r.PersistentVolume.Spec.NodeAffinity = volume.RemoteAffinity(milanID, nil)
	r.Volume.Status.Location = &v1alpha1.VolumeLocation{ClusterName: "milan", StorageClassName: "fast",
		Namespace: "shop-rome", ClaimName: "data-1"}
}

func selector(requirements ...corev1.NodeSelectorRequirement) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: requirements}}}
}

func size(quantity string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(quantity)}
}

func app(name string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
}

func in(key string, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

func require(r *Request, required *corev1.NodeSelector) {
	r.Pods[0].Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: required,
	}}
}

// waitsForPod makes the local class bind volumes to the node of the first pod.
func waitsForPod(r *Request) {
	r.Classes[1].VolumeBindingMode = ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)
}

// byNode makes milan offer two nodes, each with a virtual node and a label of its own.
func byNode(r *Request) {
	first := r.Providers[0].VirtualNodes[0]
	second := first.DeepCopy()
	first.Spec.OfferedNode, first.Spec.Labels["zone"] = "node-a", "a"
	second.Spec.NodeName, second.Spec.OfferedNode, second.Spec.Labels["zone"] = "liqo-milan-2", "node-b", "b"
	r.Providers[0].VirtualNodes = append(r.Providers[0].VirtualNodes, second)
}

func TestMovesAreRefusedWithTheFieldAndTheRemedy(t *testing.T) {
	now := metav1.Now()
	local := func(r *Request) { stored(r); r.Spec.Target = v1alpha1.MoveTarget{Local: true} }
	quota := func(name corev1.ResourceName, hard, used string) func(*Request) {
		return func(r *Request) {
			r.Quotas = []*corev1.ResourceQuota{{
				ObjectMeta: metav1.ObjectMeta{Name: "limits"},
				Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{name: resource.MustParse(hard)}},
				Status:     corev1.ResourceQuotaStatus{Used: corev1.ResourceList{name: resource.MustParse(used)}},
			}}
		}
	}
	const name, namespace, cluster, class = "metadata.name", "metadata.namespace", "spec.target.clusterName",
		"spec.target.storageClassName"
	for _, test := range []struct {
		name   string
		change func(*Request)
		// field and message are the path of the expected error and a part of its message. They are
		// empty if the move is accepted.
		field, message string
	}{
		{"accepted", func(*Request) {}, "", ""},
		{"a claim that no pod mounts", func(r *Request) { r.Pods = nil }, "", ""},
		{"a volume that is being deleted", func(r *Request) { r.PersistentVolume.DeletionTimestamp = &now }, name,
			"pv-1 is being deleted"},
		{"a VolumeAttributesClass to a provider",
			func(r *Request) { r.Claim.Spec.VolumeAttributesClassName = ptr.To("gold") }, cluster, "volumeAttributesClassName"},
		{"a VolumeAttributesClass within this cluster", func(r *Request) {
			r.Spec.Target = v1alpha1.MoveTarget{Local: true, NodeName: "worker-2"}
			r.Claim.Spec.VolumeAttributesClassName = ptr.To("gold")
		}, "", ""},
		{"a VolumeAttributesClass to another driver", func(r *Request) {
			r.Spec.Target = v1alpha1.MoveTarget{StorageClassName: "ssd"}
			r.Claim.Spec.VolumeAttributesClassName = ptr.To("gold")
		}, "spec.target.storageClassName", "another driver"},
		{"back to this cluster", local, "", ""},
		{"between two providers", func(r *Request) { stored(r); r.Spec.Target.ClusterName = "turin" }, "", ""},
		{"to another class of the same provider",
			func(r *Request) { stored(r); r.Spec.Target = v1alpha1.MoveTarget{StorageClassName: "slow"} }, "", ""},
		{"to another node of this cluster", func(r *Request) { r.Spec.Target = v1alpha1.MoveTarget{NodeName: "worker-2"} },
			"", ""},
		{"to another class of this cluster",
			func(r *Request) { r.Spec.Target = v1alpha1.MoveTarget{StorageClassName: "ssd"} }, "", ""},

		{"the claim is gone", func(r *Request) { r.Claim = nil }, name, "no PersistentVolumeClaim"},
		{"the claim is being deleted", func(r *Request) { r.Claim.DeletionTimestamp = &now }, name, "create it again"},
		{"the claim is unbound", func(r *Request) { r.Claim.Status.Phase = corev1.ClaimPending }, name, "wait until"},
		{"the claim is Lost", func(r *Request) { r.Claim.Status.Phase = corev1.ClaimLost }, name,
			"no longer exist; restore the data into another claim"},
		{"the provider lost the data",
			func(r *Request) { r.Volume.Status.Phase = v1alpha1.VirtualVolumeLost }, name,
			"restore the data into another claim"},
		{"the provider lost its claim", func(r *Request) {
			r.Volume.Status.Conditions = []metav1.Condition{{
				Type: v1alpha1.ConditionVolumeReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonShadowVolumeClaimMissing,
				Message: "milan has no ShadowVolumeClaim.",
			}}
		}, name, "milan has no ShadowVolumeClaim; wait until"},
		{"the volume is gone", func(r *Request) { r.PersistentVolume = nil }, name,
			"pv-1 does not exist; restore the data into another claim"},
		{"the volume is bound to another claim", func(r *Request) { r.PersistentVolume.Spec.ClaimRef.UID = "x" }, name,
			"another claim"},
		{"the class is gone", func(r *Request) { r.Classes = r.Classes[1:] }, name, "create it again"},
		{"another class", func(r *Request) { r.Claim.Spec.StorageClassName = ptr.To("ssd") }, name, "example.com/ssd"},
		{"a block device", func(r *Request) { r.Claim.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }, name,
			"copy the data with a pod"},
		{"an ephemeral volume", func(r *Request) {
			r.Claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "db-0"}}
		}, name, "pod db-0 owns"},
		{"a claim of a StatefulSet", func(r *Request) {
			r.Claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db"}}
		}, "", ""},
		{"an unknown finalizer", func(r *Request) { r.Claim.Finalizers = append(r.Claim.Finalizers, "example.com/backup") },
			name, "example.com/backup"},
		{"a finalizer of the federation",
			func(r *Request) { r.Claim.Finalizers = append(r.Claim.Finalizers, volume.Finalizer) }, "",
			""},
		{"expansion is requested", func(r *Request) {
			r.Claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("5Gi")
			r.Classes[1].AllowVolumeExpansion = ptr.To(true)
		}, name, "expanded"},
		{"expansion is refused", func(r *Request) {
			r.Claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("5Gi")
		}, "", ""},
		{"expansion of a volume on a provider is requested", func(r *Request) {
			stored(r)
			r.Spec.Target = v1alpha1.MoveTarget{Local: true}
			r.Claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("5Gi")
		}, name, "expanded"},
		{"the file system is expanded", func(r *Request) {
			r.Claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{
				Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue,
			}}
		}, name, "expanded"},
		{"ReadWriteOncePod online", func(r *Request) {
			r.Claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		}, "spec.strategy", "use Offline"},
		{"ReadWriteOncePod offline", func(r *Request) {
			r.Claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
			r.Spec.Strategy = v1alpha1.MoveOffline
		}, "", ""},

		{"a cluster that does not exist", func(r *Request) { r.Spec.Target.ClusterName = "rome" }, cluster,
			"kubectl get foreignclusters"},
		{"a cluster that is being unpeered", func(r *Request) { r.Providers[0].Cluster.DeletionTimestamp = &now }, cluster,
			"unpeered"},
		{"a cluster without nodes", func(r *Request) { r.Providers[0].VirtualNodes = nil }, cluster, "no virtual node"},
		{"a cluster without storage", func(r *Request) { r.Providers[0].VirtualNodes[0].Status.StorageClasses = nil },
			cluster, "offers no storage class"},
		{"a class that is not offered", func(r *Request) { r.Spec.Target.StorageClassName = "nvme" }, class,
			`"fast", "slow"`},
		{"a node of another cluster", func(r *Request) { r.Spec.Target.NodeName = "liqo-turin" }, "spec.target.nodeName",
			"must be a virtual node of cluster milan"},
		{"a virtual node", func(r *Request) { r.Spec.Target.NodeName = "liqo-milan" }, "", ""},
		{"a node that does not exist", func(r *Request) { local(r); r.Spec.Target.NodeName = "worker-9" },
			"spec.target.nodeName", "must be a node of this cluster"},
		{"a class that does not exist", func(r *Request) { local(r); r.Spec.Target.StorageClassName = "nvme" }, class,
			"no StorageClass"},
		{"a class without a provisioner", func(r *Request) { local(r); r.Spec.Target.StorageClassName = "manual" }, class,
			"creates no volumes"},
		{"a class that depends on the claim", func(r *Request) { local(r); r.Spec.Target.StorageClassName = "secret" },
			class, "depends on the claim"},
		{"the virtual class",
			func(r *Request) { local(r); r.Spec.Target.StorageClassName = "liqo" }, class, "virtual class"},
		{"no default class", func(r *Request) { local(r); r.Classes[1].Annotations = nil }, class, "no default"},
		{"a default class that does not exist", func(r *Request) {
			local(r)
			r.Classes[0].Parameters = map[string]string{v1alpha1.ParameterLocalStorageClass: "gone"}
		}, class, "no default"},
		{"the data is on the target cluster", func(r *Request) { stored(r) }, cluster, "already stored in cluster milan"},
		{"the data is local", func(r *Request) { r.Spec.Target = v1alpha1.MoveTarget{Local: true} }, "spec.target.local",
			"already stored in this cluster"},
		{"the data is on the target node", func(r *Request) { r.Spec.Target = v1alpha1.MoveTarget{NodeName: "worker-1"} },
			"spec.target", "already"},
		{"the data has the target class",
			func(r *Request) { r.Spec.Target = v1alpha1.MoveTarget{StorageClassName: "local"} },
			"spec.target", "already"},
		{"a source without a ForeignCluster",
			func(r *Request) { stored(r); r.Providers = r.Providers[1:]; r.Spec.Target.ClusterName = "turin" }, name,
			"peer with it again"},

		{"the tunnel is down", func(r *Request) { r.Providers[0].Cluster.Status.Networking = v1alpha1.PeeringPending },
			cluster, "Pending"},
		{"the tunnel of the source is down", func(r *Request) {
			stored(r)
			r.Spec.Target.ClusterName = "turin"
			r.Providers[0].Cluster.Status.Networking = ""
		}, "spec.target", "None"},
		{"within a provider without a tunnel", func(r *Request) {
			stored(r)
			r.Spec.Target = v1alpha1.MoveTarget{StorageClassName: "slow"}
			r.Providers[0].Cluster.Status.Networking = ""
		}, "", ""},
		{"a namespace that is not offloaded", func(r *Request) { r.Offloading = nil }, namespace,
			"create its NamespaceOffloading"},
		{"a namespace that is being unoffloaded", func(r *Request) { r.Offloading.DeletionTimestamp = &now }, cluster,
			"being unoffloaded"},
		{"back to this cluster from a namespace that is being unoffloaded", func(r *Request) {
			local(r)
			r.Offloading.DeletionTimestamp, r.Offloading.Spec.PodOffloadingStrategy = &now, v1alpha1.Remote
		}, "", ""},
		{"a namespace that is not offloaded to the target",
			func(r *Request) { r.Offloading.Status.Clusters = offloadedTo("turin") }, cluster,
			"not offloaded to the cluster"},
		{"a remote namespace that is not ready", func(r *Request) {
			r.Offloading.Status.Clusters[0].Conditions[1] = metav1.Condition{Type: v1alpha1.ConditionReady,
				Status: metav1.ConditionFalse, Message: "It is Terminating."}
		}, cluster, "It is Terminating."},
		{"local pods only",
			func(r *Request) { r.Offloading.Spec.PodOffloadingStrategy = v1alpha1.Local }, cluster, "Local"},
		{"remote pods only", func(r *Request) { local(r); r.Offloading.Spec.PodOffloadingStrategy = v1alpha1.Remote },
			"spec.target.local", "Remote"},
		{"a selector that does not match",
			func(r *Request) { r.Offloading.Spec.ClusterSelector = *selector(in("region", "turin")) },
			cluster, "clusterSelector"},
		{"a selector that matches",
			func(r *Request) { r.Offloading.Spec.ClusterSelector = *selector(in("region", "milan")) }, "", ""},
		{"a volume larger than the offer", func(r *Request) {
			r.Providers[0].VirtualNodes[0].Status.Storage[corev1.ResourceRequestsStorage] = resource.MustParse("3Gi")
		}, cluster, "offers 3Gi"},
		{"a volume larger than what is left", func(r *Request) {
			r.Stored = map[string]corev1.ResourceList{"milan": {corev1.ResourceRequestsStorage: resource.MustParse("7Gi")}}
		}, cluster, "11Gi would be used"},
		{"a volume larger than the class", func(r *Request) {
			offered := r.Providers[0].VirtualNodes[0].Status.Storage
			offered["fast.storageclass.storage.k8s.io/requests.storage"] = resource.MustParse("1Gi")
		}, cluster, "request another class"},
		{"a volume larger than what is left of the class", func(r *Request) {
			offered := r.Providers[0].VirtualNodes[0].Status.Storage
			offered["fast.storageclass.storage.k8s.io/requests.storage"] = resource.MustParse("5Gi")
			r.Stored = map[string]corev1.ResourceList{"milan": {
				"fast.storageclass.storage.k8s.io/requests.storage": resource.MustParse("2Gi"),
			}}
		}, cluster, "6Gi would be used"},
		{"what is left of another class", func(r *Request) {
			offered := r.Providers[0].VirtualNodes[0].Status.Storage
			offered["slow.storageclass.storage.k8s.io/requests.storage"] = resource.MustParse("1Gi")
		}, "", ""},
		{"what is left of the class in the parameter localStorageClassName", func(r *Request) {
			r.Classes[0].Parameters = map[string]string{v1alpha1.ParameterLocalStorageClass: "slow"}
			offered := r.Providers[0].VirtualNodes[0].Status.Storage
			offered["slow.storageclass.storage.k8s.io/requests.storage"] = resource.MustParse("1Gi")
		}, cluster, "request another class"},
		{"no claims", func(r *Request) {
			r.Providers[0].VirtualNodes[0].Status.Storage[corev1.ResourcePersistentVolumeClaims] = resource.MustParse("0")
		}, cluster, "offers 0 PersistentVolumeClaims"},
		{"more claims than the offer", func(r *Request) {
			r.Providers[0].VirtualNodes[0].Status.Storage[corev1.ResourcePersistentVolumeClaims] = resource.MustParse("2")
			r.Stored = map[string]corev1.ResourceList{"milan": {corev1.ResourcePersistentVolumeClaims: resource.MustParse("2")}}
		}, cluster, "offers 2 PersistentVolumeClaims"},
		{"as many claims as the offer", func(r *Request) {
			r.Providers[0].VirtualNodes[0].Status.Storage[corev1.ResourcePersistentVolumeClaims] = resource.MustParse("2")
			r.Stored = map[string]corev1.ResourceList{"milan": {corev1.ResourcePersistentVolumeClaims: resource.MustParse("1")}}
		}, "", ""},
		{"no quota", func(r *Request) { r.Providers[0].VirtualNodes[0].Status.Storage = nil }, "", ""},

		{"storage of the namespace", quota(corev1.ResourceRequestsStorage, "10Gi", "4Gi"), namespace, "limits does not permit the move"},
		{"enough storage of the namespace", quota(corev1.ResourceRequestsStorage, "12Gi", "4Gi"), "", ""},
		{"claims of the namespace", quota(corev1.ResourcePersistentVolumeClaims, "2", "1"), namespace, "2 more are needed"},
		{"storage of the class", quota("liqo.storageclass.storage.k8s.io/requests.storage", "8Gi", "4Gi"), namespace,
			"8Gi more"},
		{"storage of another class", quota("ssd.storageclass.storage.k8s.io/requests.storage", "1", "0"), "", ""},
		{"CPU of the namespace", quota(corev1.ResourceRequestsCPU, "1", "950m"), namespace, "100m more are needed"},
		{"memory of the namespace", quota(corev1.ResourceMemory, "1Gi", "1000Mi"), namespace, "128Mi more are needed"},
		{"enough memory of the namespace", quota(corev1.ResourceMemory, "1Gi", "500Mi"), "", ""},
		{"pods of the namespace", quota(corev1.ResourcePods, "2", "1"), namespace, "pods"},
		{"Secrets of the namespace", quota(corev1.ResourceSecrets, "3", "3"), namespace, "secrets"},
		{"counted Secrets of the namespace", quota("count/secrets", "3", "3"), namespace, "count/secrets"},
		{"enough Secrets of the namespace", quota(corev1.ResourceSecrets, "3", "2"), "", ""},
		{"Services of the namespace", quota(corev1.ResourceServices, "1", "1"), namespace, "services"},
		{"counted Services of the namespace", quota("count/services", "1", "1"), namespace, "count/services"},

		{"a pod without a controller", func(r *Request) { r.Pods[0].OwnerReferences = nil }, name, "pod db-0"},
		{"a pod of the last move", func(r *Request) {
			r.Pods[0].OwnerReferences, r.Pods[0].Labels[volume.LabelMove] = nil, "x"
		}, "", ""},
		{"a pod of another claim", func(r *Request) {
			r.Pods[0].OwnerReferences, r.Pods[0].Spec.Volumes[0].PersistentVolumeClaim.ClaimName = nil, "other"
		}, "", ""},
		{"a pod that requires a node",
			func(r *Request) { r.Pods[0].Spec.NodeSelector = map[string]string{corev1.LabelHostname: "worker-1"} }, cluster,
			"nodeSelector"},
		{"a pod that requires a region", func(r *Request) { require(r, selector(in("region", "turin"))) }, cluster,
			"node affinity"},
		{"a pod that requires the region",
			func(r *Request) { require(r, selector(in("region", "turin", "milan"))) }, "", ""},
		{"a pod that its namespace keeps local", func(r *Request) {
			require(r, selector(corev1.NodeSelectorRequirement{Key: v1alpha1.LabelType, Operator: corev1.NodeSelectorOpNotIn,
				Values: []string{v1alpha1.TypeVirtualNode}}))
		}, "", ""},
		{"a pod that requires another node of this cluster", func(r *Request) {
			r.Pods[0].Spec.NodeSelector = map[string]string{corev1.LabelHostname: "worker-1"}
			r.Spec.Target = v1alpha1.MoveTarget{NodeName: "worker-2"}
		}, "spec.target", "nodeSelector"},
		{"a pod that excludes a node to which the local volume may be bound", func(r *Request) {
			local(r)
			waitsForPod(r)
			r.Pods[0].Spec.NodeSelector = map[string]string{corev1.LabelHostname: "worker-1"}
		}, "spec.target.nodeName", "exclude node worker-2"},
		{"a pod that excludes a node of a class whose volumes are bound at once", func(r *Request) {
			local(r)
			r.Pods[0].Spec.NodeSelector = map[string]string{corev1.LabelHostname: "worker-1"}
		}, "", ""},
		{"a pod that excludes a node, and names another one", func(r *Request) {
			local(r)
			waitsForPod(r)
			r.Spec.Target.NodeName = "worker-1"
			r.Pods[0].Spec.NodeSelector = map[string]string{corev1.LabelHostname: "worker-1"}
		}, "", ""},
		{"a node whose taint excludes the pod and the receiver", func(r *Request) {
			local(r)
			waitsForPod(r)
			r.Nodes[1].Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "batch", Effect: corev1.TaintEffectNoSchedule}}
		}, "", ""},
		{"a pod that excludes a virtual node of a provider that offers node by node", func(r *Request) {
			byNode(r)
			r.Pods[0].Spec.NodeSelector = map[string]string{"zone": "a"}
		}, "spec.target.nodeName", "exclude node liqo-milan-2"},
		{"a pod that excludes a virtual node, and names another one", func(r *Request) {
			byNode(r)
			r.Spec.Target.NodeName = "liqo-milan"
			r.Pods[0].Spec.NodeSelector = map[string]string{"zone": "a"}
		}, "", ""},
		{"a pod that runs on each virtual node of a provider that offers node by node", byNode, "", ""},
		{"a node with a taint that the pod does not tolerate", func(r *Request) {
			r.Spec.Target = v1alpha1.MoveTarget{NodeName: "worker-2"}
			r.Nodes[1].Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "batch", Effect: corev1.TaintEffectNoSchedule}}
		}, "spec.target", "tolerations"},
		{"a node with a taint that the pod tolerates", func(r *Request) {
			r.Spec.Target = v1alpha1.MoveTarget{NodeName: "worker-2"}
			r.Nodes[1].Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "batch", Effect: corev1.TaintEffectNoSchedule}}
			r.Pods[0].Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
		}, "", ""},
		{"a node that is not ready, and the taint of virtual nodes", func(r *Request) {
			r.Spec.Target = v1alpha1.MoveTarget{NodeName: "worker-2"}
			r.Nodes[1].Spec.Taints = []corev1.Taint{
				{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}, {Key: v1alpha1.TaintVirtualNode, Effect: corev1.TaintEffectNoExecute},
			}
		}, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			request := movable()
			test.change(request)
			plan, errs := request.Plan()
			if (plan == nil) != (len(errs) > 0) {
				t.Fatalf("got plan %+v, errors %v", plan, errs)
			}
			if test.field == "" {
				if len(errs) > 0 {
					t.Errorf("refused: %v", errs)
				}
				return
			}
			if len(errs) != 1 || errs[0].Field != test.field || !strings.Contains(errs[0].Error(), test.message) {
				t.Errorf("got %v, want one error at %s that contains %q", errs, test.field, test.message)
			}
		})
	}
}

func TestPlanNamesPathPodsBudgetsAndDowntime(t *testing.T) {
	request := movable()
	request.Spec = v1alpha1.MoveSpec{
		Target: v1alpha1.MoveTarget{ClusterName: "milan", StorageClassName: "slow"}, Strategy: v1alpha1.MoveOffline,
		Verify:    v1alpha1.VerifyFull,
		Bandwidth: ptr.To(resource.MustParse("64Mi")),
	}
	request.Budgets = []*policyv1.PodDisruptionBudget{{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: ptr.To(app("db"))},
	}, {ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: ptr.To(app("web"))}}}
	request.Policies = []*networkingv1.NetworkPolicy{
		{ObjectMeta: metav1.ObjectMeta{Name: "default-deny"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "web-only"},
			Spec: networkingv1.NetworkPolicySpec{PodSelector: app("web")}},
		{ObjectMeta: metav1.ObjectMeta{Name: "allow-all"},
			Spec: networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{}}}},
	}
	request.Quotas = []*corev1.ResourceQuota{{
		ObjectMeta: metav1.ObjectMeta{Name: "limits"},
		Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{corev1.ResourceLimitsMemory: resource.MustParse("1Gi")}},
	}}
	plan, errs := request.Plan()
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	warnings, unknown := plan.Warnings, plan.Unknown
	plan.Warnings, plan.Unknown = nil, nil
	want := &v1alpha1.MovePlan{
		Action:          v1alpha1.PlanChange,
		Source:          v1alpha1.VolumeLocation{StorageClassName: "local", VolumeName: "pv-1"},
		Target:          v1alpha1.VolumeLocation{ClusterName: "milan", ClusterID: milanID, StorageClassName: "slow"},
		Capacity:        ptr.To(resource.MustParse("4Gi")),
		Path:            "From this cluster to cluster milan, through the gateways of this cluster and cluster milan.",
		EvictedPods:     []v1alpha1.PlannedEviction{{Name: "db-0", NodeName: "worker-1", DisruptionBudget: "db"}},
		EvictedPodCount: 1,
		Downtime: "In this order: the termination of the evicted pods (up to 30 s each), " +
			"copying all data (1m4s for a full volume at 64Mi/s), " +
			"reading all data at both ends to compare it, binding the claim to the new volume, the start of the pods.",
	}
	if diff := cmp.Diff(want, plan); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	for _, message := range []string{"ClaimMisbound", "NetworkPolicy default-deny also",
		"PodDisruptionBudget db allows no disruption", "ResourceQuota limits requires limits.memory"} {
		if !slices.ContainsFunc(warnings, func(warning string) bool { return strings.Contains(warning, message) }) {
			t.Errorf("got warnings %q, want %q", warnings, message)
		}
	}
	if len(warnings) != 4 || len(unknown) != 3 {
		t.Errorf("warnings %q, unknown %q", warnings, unknown)
	}
}

func TestPlanWarnsOfPodAntiAffinity(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Request)
		want   bool
	}{
		"another replica at the target": {func(*Request) {}, true},
		"another replica elsewhere":     {func(r *Request) { r.Pods[1].Spec.NodeName = "worker-1" }, false},
		"a replica that has ended":      {func(r *Request) { r.Pods[1].Status.Phase = corev1.PodSucceeded }, false},
		"a replica that is evicted too": {func(r *Request) { r.Pods[1].Spec.Volumes = r.Pods[0].Spec.Volumes }, false},
		"pods of another application":   {func(r *Request) { r.Pods[1].Labels = nil }, false},
		"nodes without the label":       {func(r *Request) { r.Nodes[1].Labels = nil }, false},
		"several nodes": {func(r *Request) {
			r.Nodes = append(r.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-3",
				Labels: map[string]string{corev1.LabelHostname: "worker-3"}}})
			stored(r)
			r.Spec.Target = v1alpha1.MoveTarget{Local: true}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			request := movable()
			request.Spec.Target = v1alpha1.MoveTarget{NodeName: "worker-2"}
			request.Pods[0].Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
					LabelSelector: ptr.To(app("db")), TopologyKey: corev1.LabelHostname,
				}},
			}}
			other := request.Pods[0].DeepCopy()
			other.Name, other.Spec.NodeName, other.Spec.Volumes = "db-1", "worker-2", nil
			request.Pods = append(request.Pods, other)
			test.change(request)
			plan, errs := request.Plan()
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			warned := slices.ContainsFunc(plan.Warnings,
				func(warning string) bool { return strings.Contains(warning, "because pod db-1 runs there") })
			if warned != test.want {
				t.Errorf("warnings %q", plan.Warnings)
			}
		})
	}
}

func TestPlanWarnsOfClusterThatOffersNoPods(t *testing.T) {
	for _, pods := range []string{"0", "10"} {
		request := movable()
		request.Nodes = append(request.Nodes, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "liqo-milan"},
			Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods)}},
		})
		plan, errs := request.Plan()
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		warned := slices.ContainsFunc(plan.Warnings, func(warning string) bool {
			return strings.Contains(warning, "Cluster milan currently offers no pods")
		})
		if warned != (pods == "0") {
			t.Errorf("%s pods: warnings %q", pods, plan.Warnings)
		}
	}
}

func TestPathsNameTheGatewaysThatTheDataCrosses(t *testing.T) {
	milan, turin := provider("milan", milanID), provider("turin", turinID)
	flat := provider("bari", turinID)
	flat.Cluster.Spec.Networking = v1alpha1.NetworkingFlat
	for _, test := range []struct {
		from, to end
		want     string
	}{
		{end{}, end{}, "Within this cluster."},
		{end{provider: &milan}, end{provider: &milan}, "Within cluster milan."},
		{end{provider: &milan}, end{},
			"From cluster milan to this cluster, through the gateways of this cluster and cluster milan."},
		{end{provider: &milan}, end{provider: &turin},
			"From cluster milan to cluster turin, through the gateways of cluster milan, this cluster and cluster turin."},
		{end{}, end{provider: &flat}, "From this cluster to cluster bari, directly between pods."},
	} {
		if got := path(test.from, test.to); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

func TestPlanNamesOnlyTheFirstPods(t *testing.T) {
	request := movable()
	for range 120 {
		request.Pods = append(request.Pods, request.Pods[0])
	}
	plan, errs := request.Plan()
	if len(errs) > 0 || plan.EvictedPodCount != 121 || len(plan.EvictedPods) != maxEvictions {
		t.Errorf("got %d of %d pods, %v", len(plan.EvictedPods), plan.EvictedPodCount, errs)
	}
}
