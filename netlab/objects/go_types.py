"""What Kubernetes calls the types of fields, and which fields it knows that this program does not read.

The API server names Go types when it refuses a value of the wrong type, and reports a field as unknown only if
Kubernetes itself does not know it; the typed views hold neither fact.

Source: types.go of k8s.io/api/core/v1, k8s.io/api/discovery/v1 and k8s.io/apimachinery/pkg/apis/meta/v1, 1.36.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

GO_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "Container.envFrom": "v1.EnvFromSource",
        "Container.imagePullPolicy": "v1.PullPolicy",
        "Container.resizePolicy": "v1.ContainerResizePolicy",
        "Container.restartPolicy": "v1.ContainerRestartPolicy",
        "Container.restartPolicyRules": "v1.ContainerRestartRule",
        "Container.securityContext": "v1.SecurityContext",
        "Container.terminationMessagePolicy": "v1.TerminationMessagePolicy",
        "Container.volumeDevices": "v1.VolumeDevice",
        "Container.volumeMounts": "v1.VolumeMount",
        "ContainerPort.protocol": "v1.Protocol",
        "EndpointPort.protocol": "v1.Protocol",
        "EndpointSlice.addressType": "v1.AddressType",
        "HTTPGetAction.scheme": "v1.URIScheme",
        "HostPathVolumeSource.type": "v1.HostPathType",
        "Lifecycle.stopSignal": "v1.Signal",
        "LoadBalancerIngress.ipMode": "v1.LoadBalancerIPMode",
        "LoadBalancerIngress.ports": "v1.PortStatus",
        "NodeAddress.type": "v1.NodeAddressType",
        "NodeSpec.configSource": "v1.NodeConfigSource",
        "ObjectMeta.deletionGracePeriodSeconds": "int64",
        "ObjectMeta.generation": "int64",
        "ObjectMeta.managedFields": "v1.ManagedFieldsEntry",
        "ObjectMeta.uid": "types.UID",
        "ObjectReference.uid": "types.UID",
        "OwnerReference.uid": "types.UID",
        "PodCondition.status": "v1.ConditionStatus",
        "PodCondition.type": "v1.PodConditionType",
        "PodReadinessGate.conditionType": "v1.PodConditionType",
        "PodSpec.activeDeadlineSeconds": "int64",
        "PodSpec.affinity": "v1.Affinity",
        "PodSpec.dnsPolicy": "v1.DNSPolicy",
        "PodSpec.ephemeralContainers": "v1.EphemeralContainer",
        "PodSpec.imagePullSecrets": "v1.LocalObjectReference",
        "PodSpec.os": "v1.PodOS",
        "PodSpec.overhead": "v1.ResourceList",
        "PodSpec.preemptionPolicy": "v1.PreemptionPolicy",
        "PodSpec.resourceClaims": "v1.PodResourceClaim",
        "PodSpec.resources": "v1.ResourceRequirements",
        "PodSpec.restartPolicy": "v1.RestartPolicy",
        "PodSpec.securityContext": "v1.PodSecurityContext",
        "PodSpec.terminationGracePeriodSeconds": "int64",
        "PodSpec.topologySpreadConstraints": "v1.TopologySpreadConstraint",
        "PodStatus.phase": "v1.PodPhase",
        "Probe.terminationGracePeriodSeconds": "int64",
        "ServiceAccountTokenProjection.expirationSeconds": "int64",
        "ServicePort.protocol": "v1.Protocol",
        "ServiceSpec.externalTrafficPolicy": "v1.ServiceExternalTrafficPolicy",
        "ServiceSpec.internalTrafficPolicy": "v1.ServiceInternalTrafficPolicy",
        "ServiceSpec.ipFamilies": "v1.IPFamily",
        "ServiceSpec.ipFamilyPolicy": "v1.IPFamilyPolicy",
        "ServiceSpec.sessionAffinity": "v1.ServiceAffinity",
        "ServiceSpec.type": "v1.ServiceType",
        "ServiceStatus.conditions": "v1.Condition",
        "SleepAction.seconds": "int64",
        "Taint.effect": "v1.TaintEffect",
        "Toleration.effect": "v1.TaintEffect",
        "Toleration.operator": "v1.TolerationOperator",
        "Toleration.tolerationSeconds": "int64",
    }
)
"""The Go type of a field's value, or of its items where it is a list, where the Python type does not tell it."""

UNREAD_FIELDS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "NodeStatus": frozenset(
            (
                "allocatable",
                "capacity",
                "conditions",
                "config",
                "daemonEndpoints",
                "declaredFeatures",
                "features",
                "images",
                "nodeInfo",
                "phase",
                "runtimeHandlers",
                "volumesAttached",
                "volumesInUse",
            )
        ),
        "PodCondition": frozenset(("lastProbeTime", "lastTransitionTime", "message", "observedGeneration", "reason")),
        "PodStatus": frozenset(
            (
                "allocatedResources",
                "containerStatuses",
                "ephemeralContainerStatuses",
                "extendedResourceClaimStatus",
                "hostIPs",
                "initContainerStatuses",
                "message",
                "nominatedNodeName",
                "observedGeneration",
                "qosClass",
                "reason",
                "resize",
                "resourceClaimStatuses",
                "resources",
                "startTime",
            )
        ),
    }
)
"""Fields that Kubernetes knows beyond those of the typed view, by the name of the struct."""
